"""Which GPUs a run of the local engine sees: its own, or a share of one."""

import os
import subprocess

from seedspread.errors import SeedspreadError


def gpus_here() -> list[str]:
    """The GPUs that may be used: those of `CUDA_VISIBLE_DEVICES`, or all that the driver lists."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"],  # noqa: S607 - the driver's own, wherever it is
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, line in enumerate(listed.splitlines()) if line.startswith("GPU")]


def check_share(gpus_per_run: float) -> None:
    """A whole number of GPUs, or a fraction of which a whole number fits one."""
    runs = 1 / gpus_per_run
    whole = gpus_per_run if gpus_per_run >= 1 else runs
    if gpus_per_run < 0 or abs(whole - round(whole)) > 1e-6:
        raise SeedspreadError(
            f"gpus_per_run must be a whole number, or a share such as 0.5 or 0.25; got {gpus_per_run:g}"
        )


def gpu_slots(devices: list[str], gpus_per_run: float) -> list[str]:
    """What `CUDA_VISIBLE_DEVICES` is for each run that there is room for at once."""
    if gpus_per_run < 1:
        runs = round(1 / gpus_per_run)
        return [device for _ in range(runs) for device in devices]
    each = round(gpus_per_run)
    slots = [",".join(devices[i : i + each]) for i in range(0, len(devices) - each + 1, each)]
    if not slots:
        raise SeedspreadError(f"a run asks for {each} GPUs, and {len(devices)} are visible here")
    return slots
