"""Two conditions and their differences: protein networks of two cancers, and which edges really differ."""

import jointglasso as jgl

proteins = jgl.datasets.load_rppa().select(classes=["KIRC", "OV"])
some = proteins.select(variables=proteins.variable_names[:30])
levels = some.to_frame()

model = jgl.JointGraphicalLasso(lambda1=0.2, lambda2=0.1).fit(levels, some.y)
print(model.networks_.compare().to_string(index=False))
print(model.networks_.hubs(3).to_string(index=False))

# Do the networks differ at all (labels permuted), and which pairs of proteins do?
print(jgl.network_test(levels, some.y, n_permutations=200, random_state=0).table.to_string(index=False))
print(jgl.infer(levels, some.y).differences(fdr=0.1).head(5).to_string(index=False))
