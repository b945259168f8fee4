"""First fit: three classes of samples in, three certified networks out."""

import jointglasso as jgl

# 61 marker genes in tumours of three organs.
table, processes = jgl.datasets.load_expression()

model = jgl.JointGraphicalLasso(lambda1=0.4, lambda2=0.1).fit(table.to_frame(), table.y)

print(model.solution_)
print(f"The objective is at most {model.certificate_.gap:.1e} above the optimum: that is proved, not hoped for.")
print(model.networks_.edges().head(8).to_string(index=False))
print(model.networks_.compare().to_string(index=False))
