"""Two clusters of two providers learn to sort: python fit_sorter.py [epochs [sequences]]"""

import sys
import time

from task import loss_fn, make_data, make_loader, make_model, percent_sorted

import ravnest

if __name__ == "__main__":
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    count = int(sys.argv[2]) if len(sys.argv) > 2 else None
    ravnest.set_seed(42)
    start = time.perf_counter()
    run = ravnest.fit(
        make_model(),
        make_loader(make_data(count)),
        criterion=loss_fn,
        optimizer="adamw",
        optimizer_params={"lr": 1e-3},
        epochs=epochs,
        providers=4,
        clusters=2,
        reduce_factor=16,
    )
    run.plot("curves.png")
    seconds = time.perf_counter() - start
    print(
        f"{len(run.history['loss'])} batches on two clusters in {seconds:.0f} s;"
        f" {percent_sorted(run.state_dict()):.2f} % of unseen sequences are sorted exactly"
    )
