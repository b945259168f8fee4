"""Two conditions and their differences: protein networks of two cancers, and which edges really differ."""

import jointglasso as jgl

proteins = jgl.datasets.load_rppa().select(classes=["KIRC", "OV"])
some = proteins.select(variables=proteins.variable_names[:30])
levels = some.to_frame()

model = jgl.JointGraphicalLasso(lambda1=0.2, lambda2=0.1).fit(levels, some.y)
print(model.networks_.compare().to_string(index=False))
print(model.networks_.hubs(3).to_string(index=False))

# Differences by eye are cheap; permuting the labels tells which of them chance would not make.
test = jgl.difference_test(levels, some.y, lambda1=0.2, lambda2=0.1, n_permutations=50, random_state=0)
print(f"Do the networks differ at all? p = {test.global_p_value:.3f}")
print(test.table.head(5).to_string(index=False))
