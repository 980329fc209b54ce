from task import make_loaders, make_model

from ravnest import clusterize, set_seed

set_seed(42)

batch = next(iter(make_loaders()[0]))
clusterize(
    model=make_model(),
    example_kwargs={key: batch[key] for key in ("input_ids", "attention_mask")},
)
