"""The C allocator, told to keep what is freed: a step asks for the same large blocks again and again.

By default glibc gives such blocks back to the system at once, and the system clears every page anew when
they are asked for again: up to two thirds of a large step's time. Results are the same to the bit.
"""

import ctypes
import sys

# From malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """For this process, until it ends; meant for one that trains and does little else.

    Returns:
        whether the allocator could be told: it is glibc's.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False  # another C library
    return bool(
        mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, _LARGEST) and mallopt(_TOP_PAD, 64 * 2**20)
    )
