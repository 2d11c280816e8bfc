"""Worker processes that do not run the script again which started them."""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from seedspread.study.worker import WorkItem

_lock = threading.Lock()


@contextmanager
def main_left_out(items: Iterable[WorkItem]) -> Iterator[None]:
    """While it is open, processes can be spawned from a script that has no `if __name__ == "__main__":`.

    A spawned process imports the main module, by its `__spec__` or `__file__`, as the things that it is sent
    may be of it. Ours are not, unless someone's own runner is: functions of a script are sent as code.
    """
    main: Any = sys.modules["__main__"]
    if any(
        type(thing).__module__ == "__main__" for item in items for thing in (item.runner, item.parameters)
    ):
        yield
        return
    with _lock:
        kept = {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
        main.__spec__ = None
        vars(main).pop("__file__", None)
        try:
            yield
        finally:
            vars(main).update(kept)
