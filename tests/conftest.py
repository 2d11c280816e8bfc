"""What all tests need."""

import signal

from hypothesis import settings

# No test asserts a time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# In the background interrupts are ignored, and all children inherit that; some tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
