"""Which edges are the same in six cancers, and which differ: the fused penalty, with proofs.

    python examples/same_or_different.py
"""

from jointglasso import JointGraphicalLasso
from jointglasso.datasets import load_rppa


def main() -> None:
    """Fit the proteins of six cancers and tell what is the same."""
    table = load_rppa()
    model = JointGraphicalLasso(0.25, 0.08, penalty="fused", tol=1e-9).fit(table.X, table.y)
    edges = model.networks_.edges()
    found = model.solution_.sameness.count()
    print(f"{len(table.y)} samples, {table.X.shape[1]} proteins, classes {', '.join(map(str, model.classes_))}")
    print(f"relative gap {model.certificate_.relative_gap:.1e}, edges by class {model.solution_.n_edges}")
    print(f"the same in two cancers: {found['same']} comparisons, {found['same_proved']} of them proved")
    print(f"different in two cancers: {found['different']} comparisons, {found['different_proved']} of them proved")
    everywhere = edges[edges["same_in"] == ", ".join(map(str, model.classes_))]
    pairs, proved = len(everywhere) // len(model.classes_), int(everywhere["same_certified"].sum())
    print(f"edges of one value in all six: {pairs}, {proved // len(model.classes_)} of them proved")
    alone = edges[edges["same_in"] == edges["class"]]
    print(f"edges whose value no other class has: {alone['class'].value_counts().to_dict()}")


if __name__ == "__main__":
    main()
