"""Studies on a real Ray cluster of two nodes on this machine, one of which is lost in the midst of the last.

Run as a script, so that Ray's threads and warnings stay out of the test process:
python ray_cluster.py FOLDER FOLDER ...
with `study.toml` in each folder; the store, `ray`, is beside it.
"""

import json
import sys
import threading
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from seedspread.study.plan import Plan
from seedspread.study.ray_engine import RayExecutor
from seedspread.study.sequential import run_sequential
from seedspread.study.spec import StudySpec


def main() -> None:
    """Runs the studies and prints a report of each."""
    folders = [Path(name) for name in sys.argv[1:]]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
    lost: list[float] = []

    def lose() -> None:
        while len(list(folders[-1].glob("ray/*/checkpoint-*"))) < 3:  # both nodes are at work
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)
        lost.append(time.time())

    threading.Thread(target=lose, daemon=True).start()
    for folder in folders:
        plan = Plan.make(StudySpec.from_file(folder / "study.toml"), folder / "ray")
        _, report = run_sequential(plan, RayExecutor(), lease_seconds=10)
        print(json.dumps({"done": len(report.done), "failed": report.failed, "lost": len(lost)}))
    ray.shutdown()
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
