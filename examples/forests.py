"""Do extremely randomized trees spread more over seeds than a random forest? A study of one's own function.

Both forests are trained on scikit-learn's handwritten digits, with 20 seeds each; the split stays the same,
so that the seed stands for the training alone. Run it as

    python examples/forests.py [FOLDER]

It prints the answer and leaves the runs and a page in the folder; with the same folder again, it has nothing
left to train.
"""

import sys
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

from seedspread import Study

FORESTS = {"random forest": RandomForestClassifier, "extra trees": ExtraTreesClassifier}


def train(seed: int, forest: str, trees: int) -> dict[str, float]:
    """One forest; its accuracy on the test images."""
    images, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.5, random_state=0)
    model = FORESTS[forest](n_estimators=trees, random_state=seed).fit(x_train, y_train)
    return {"accuracy": model.score(x_test, y_test)}


folder = Path(sys.argv[1] if len(sys.argv) > 1 else "forests")
study = Study(
    train,
    title="Do extremely randomized trees spread more over seeds than a random forest?",
    factors={"forest": list(FORESTS)},
    settings={"trees": 50},
    seeds=20,
    audit={"group": "forest", "baseline": "random forest", "value": "accuracy"},
)
runs = study.run(folder / "runs")
print(runs.audit().to_text())
print("page:", runs.report(folder / "report.html"))
