"""What a run takes of its worker's time, of which runs that are trained together have a share each."""

import time

# Of a run's work: before so much is done nothing can be said of the rest.
_LEAST = 0.02


class Pace:
    """Counts a run's time since it was last started.

    Attributes:
        seconds: of its worker, so far.

    Args:
        begun_at: the share of its work that was done by then.
    """

    def __init__(self, begun_at: float = 0.0) -> None:
        self.seconds = 0.0
        self._begun_at, self._images, self._start = begun_at, 0, time.monotonic()

    def add(self, seconds: float, images: int = 0) -> None:
        """Some more time, in which it saw so many images."""
        self.seconds += seconds
        self._images += images

    @property
    def images_per_second(self) -> float | None:
        """Of this run, by the clock on the wall; None before the first."""
        elapsed = time.monotonic() - self._start
        return self._images / elapsed if self._images and elapsed > 0 else None

    def whole(self, done: float) -> float | None:
        """What the whole run will take if it goes on so; None as long as too little is done."""
        gained = done - self._begun_at
        return self.seconds / gained if gained >= _LEAST and self.seconds else None
