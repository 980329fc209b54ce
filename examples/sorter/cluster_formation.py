from task import make_data, make_model

from ravnest import clusterize, set_seed

set_seed(42)

tokens = make_data()[:64][0]
clusterize(model=make_model(), example_args=(tokens,))
