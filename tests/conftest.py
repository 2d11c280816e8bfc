"""What all tests need."""

import signal

# In the background interrupts are ignored, and all children inherit that; some tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
