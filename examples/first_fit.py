"""First fit: three classes of samples in, three certified networks out."""

import jointglasso as jgl

# Sixty variables in three classes; some modules are common to all of them, some belong to one.
data = jgl.datasets.make_joint_ggm("modules", p=60, n_classes=3, n_samples=150, random_state=0)

model = jgl.JointGraphicalLasso(lambda1=0.3, lambda2=0.1).fit(data.X, data.y)

print(model.solution_)
print(f"The objective is at most {model.certificate_.gap:.1e} above the optimum: that is proved, not hoped for.")
print(model.networks_.edges().head(8).to_string(index=False))
print(model.networks_.compare().to_string(index=False))
