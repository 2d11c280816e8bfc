"""A monitor in an ArcFace loop: how often do its margin, its arc cosine and gradient clipping saturate?

ArcFace adds a margin m to the angle between an embedding and its class. Beyond pi - m the cosine would rise
again, so the angle is held there; the arc cosine is kept away from its ends, where its gradient is infinite;
and the gradient's norm is clipped. Each of the three cuts something without a word. Run it as

    python examples/arcface_monitor.py [FIGURE.png]
"""

import math
import sys

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from seedspread import ClampMonitor

CLASSES, EMBEDDING, MARGIN, SCALE, EDGE, MAX_NORM = 8, 2, 0.5, 16.0, 1e-4, 2.0
STEPS, BATCH = 300, 64


class ArcFace(nn.Module):
    """Cross entropy over s cos(theta + m [own class]); it tells the monitor what it cuts."""

    def __init__(self, monitor: ClampMonitor) -> None:
        super().__init__()
        self.monitor = monitor
        self.centers = nn.Parameter(torch.randn(CLASSES, EMBEDDING))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of `(N, d)` features and `(N,)` labels."""
        cosine = normalize(features) @ normalize(self.centers).T
        self.monitor.watch_clamp("cosine", cosine, -1 + EDGE, 1 - EDGE)
        angle = cosine.clamp(-1 + EDGE, 1 - EDGE).acos()
        own = angle.gather(1, labels[:, None])
        self.monitor.watch_clamp("angle to the own class", own, high=math.pi - MARGIN)
        shifted = own.clamp(max=math.pi - MARGIN) + MARGIN
        return cross_entropy(SCALE * angle.scatter(1, labels[:, None], shifted).cos(), labels)


def train(monitor: ClampMonitor) -> float:
    """Trains on Gaussian blobs; returns the training accuracy of the last 50 steps."""
    torch.manual_seed(1)
    torch.set_num_threads(1)  # the model is too small for more
    blobs = 2 * torch.randn(CLASSES, 16)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, EMBEDDING))
    loss = ArcFace(monitor)
    parameters = [*model.parameters(), *loss.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9)
    correct = []
    for _ in range(STEPS):
        labels = torch.randint(CLASSES, (BATCH,))
        features = model(blobs[labels] + torch.randn(BATCH, 16))
        optimizer.zero_grad()
        loss(features, labels).backward()
        norm = nn.utils.clip_grad_norm_(parameters, MAX_NORM)
        monitor.record("gradient norm", norm > MAX_NORM)
        optimizer.step()
        monitor.step()
        nearest = (normalize(features) @ normalize(loss.centers).T).argmax(1)
        correct.append((nearest == labels).double().mean().item())
    return sum(correct[-50:]) / 50


def main() -> None:
    """Trains, and shows what saturated and when."""
    figure = sys.argv[1] if len(sys.argv) > 1 else "arcface-monitor.png"
    monitor = ClampMonitor(every=10)
    accuracy = train(monitor)
    print(monitor)
    print(f"\n{monitor.advice()}\n\nTraining accuracy {accuracy:.1%}; rates over time: {figure}")
    monitor.plot(figure)


if __name__ == "__main__":
    main()
