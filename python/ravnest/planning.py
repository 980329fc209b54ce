"""Plans: which machines form a cluster, who holds which part of the model, and how fast it runs."""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ravnest import _C
from ravnest.capture import capture
from ravnest.program import Program
from ravnest.seed import current_seed

_PASSES_IN_PICTURE = 24


class Plan:
    """A plan as `clusterize` made it. `print(plan)` shows it; `data` has all its numbers."""

    def __init__(self, core: "_C.Plan", program: Program):
        self._core = core
        self._program = program

    @cached_property
    def data(self) -> dict[str, Any]:
        """Clusters, stages, rings and spares, as `ravnest clusterize --json` prints them."""
        return json.loads(self._core.json())

    @property
    def clusters(self) -> list[dict[str, Any]]:
        return self.data["clusters"]

    @property
    def rings(self) -> list[dict[str, Any]]:
        return self.data["rings"]

    @property
    def log(self) -> str:
        """Every node's cluster, address and rings, one after the other."""
        return self._core.log()

    def save(self, node_data: str | os.PathLike = "node_data") -> None:
        """Writes the plan and its sub-models, in place of the ones before."""
        self._core.write(self._program._core, os.fspath(node_data))

    def picture(self, path: str | os.PathLike) -> None:
        """Draws clusters, stages, links and rings into an SVG file."""
        _C.write_file(os.fspath(path), self._core.svg())

    def simulate(
        self,
        minutes: float = 10,
        schedule: str = "async",
        micro_batches: int = 4,
        reduce_factor: int = 0,
        away: Sequence[tuple[int, float, float]] = (),
        churn: tuple[float, float] | None = None,
        jitter: float = 0.0,
        seed: int | None = None,
        picture: str | os.PathLike | None = None,
    ) -> "Simulation":
        """Runs the plan event by event, without the model.

        `away` lists machines that are away, as (node, from second, to second); `churn` lets all
        come and go at random, as (mean seconds present, mean seconds away).
        """
        if churn is not None and not _are_positive(churn):
            raise ValueError(
                "[simulate] expected churn to be two numbers above 0 (mean seconds present, mean "
                f"seconds away), got {churn!r}."
            )
        if not isinstance(minutes, (int, float)) or isinstance(minutes, bool):
            raise ValueError(f"[simulate] expected minutes to be a number, got {minutes!r}.")
        for each in away:
            if not isinstance(each, (tuple, list)) or len(each) != 3:
                raise ValueError(
                    f"[simulate] expected away to list (node, from, to second), got {each!r}."
                )
        _check_number("seed", seed, 0)
        _check_number("micro_batches", micro_batches, 1)
        _check_number("reduce_factor", reduce_factor, 0)
        present, gone = churn if churn is not None else (0.0, 0.0)
        options = {
            "seconds": minutes * 60.0,
            "micro_batches": micro_batches,
            "reduce_factor": reduce_factor or 0,
            "absences": list(away),
            "mean_present_seconds": present,
            "mean_away_seconds": gone,
            "jitter": jitter,
            "seed": current_seed() if seed is None else seed,
        }
        shown = min(options["seconds"], _PASSES_IN_PICTURE * self._core.bottleneck_seconds)
        core = self._core.simulate(
            **options, schedule=schedule, timeline_seconds=shown if picture is not None else 0.0
        )
        other = self._core.simulate(
            **options, schedule="sync" if schedule == "async" else "async", timeline_seconds=0.0
        )
        simulation = Simulation(core, other, self._core)
        if picture is not None:
            _C.write_file(os.fspath(picture), core.svg(self._core))
        return simulation

    def __str__(self) -> str:
        return self._core.table()

    def __repr__(self) -> str:
        machines = sum(len(cluster["stages"]) for cluster in self.clusters)
        return f"<ravnest.Plan of {machines} machines in {len(self.clusters)} clusters>"


class Simulation:
    """What a simulation foretells. `print(simulation)` shows it; `data` has all its numbers."""

    def __init__(self, core: "_C.Simulation", other: "_C.Simulation", plan: "_C.Plan"):
        self._core = core
        self._other = other
        self._plan = plan

    @cached_property
    def data(self) -> dict[str, Any]:
        return json.loads(self._core.json(self._plan))

    @property
    def samples_per_second(self) -> float | None:
        return self.data["samples_per_second"]

    def __str__(self) -> str:
        return self._core.table(self._plan, self._other)

    def __repr__(self) -> str:
        return f"<ravnest.Simulation: {self.data['passes_per_second']:.3g} passes/s>"


def clusterize(
    model: nn.Module | Program | str | os.PathLike | None = None,
    example_args: tuple | torch.Tensor = (),
    example_kwargs: dict[str, Any] | None = None,
    pass_data: bool = False,
    *,
    clusters: int | str | None = None,
    nodes: str | os.PathLike = "node_data/node_configs.json",
    out: str | os.PathLike | None = "node_data",
    optimizer: str = "adam",
    batch: int | None = None,
    seed: int | None = None,
    population: int | None = None,
    generations: int | None = None,
    picture: str | os.PathLike | None = None,
    verbose: bool = True,
) -> Plan:
    """Forms clusters from the pool of machines in `nodes`, cuts the model for each, and writes
    the sub-models and every node's metadata to `out`.

    Args:
        model: An `nn.Module`, scripted module, Program, or the path of a `.pt2` or TorchScript
            file.
        example_args: Positional inputs, or one tensor. Without examples the model is scripted,
            and parameter sizes decide.
        example_kwargs: Keyword inputs.
        pass_data: Run the forward on the example and plan with the times and memory it took.
        clusters: How many; ``"auto"`` takes the number with the best simulated throughput. By
            default as many as can each hold the model, with at least three machines in each.
        out: Where the plan goes; ``None`` writes nothing.
        optimizer: Whose state the memory counts: sgd, momentum or adam.
        batch: Samples in a pass; by default those of the example.
        seed: Of the genetic algorithm; by default that of `set_seed`.
        picture: An SVG file to draw the plan into.
        verbose: Print the log and the plan.

    Raises:
        ValueError: If the machines cannot hold the model, with its size, the pool's and what
            would be enough; or if the pool's file is malformed.
    """
    if model is None:
        raise ValueError("[clusterize] expected a model, got None.")
    args = (example_args,) if isinstance(example_args, torch.Tensor) else tuple(example_args)
    kwargs = dict(example_kwargs or {})
    if pass_data and not args and not kwargs:
        raise ValueError("[clusterize] pass_data=True needs example inputs, got none.")
    _check_number("batch", batch, 1)
    _check_number("seed", seed, 0)
    _check_number("population", population, 2, 10_000)
    _check_number("generations", generations, 1, 100_000)
    _check_number("clusters", clusters if isinstance(clusters, int) else None, 1)
    program = model if isinstance(model, Program) else capture(model, args, kwargs)
    if batch is None and (isinstance(model, Program) or not isinstance(model, nn.Module)):
        batch = _batch_of(program, args, kwargs)
    core = _C.make_plan(
        program._core,
        os.fspath(nodes),
        program._train_signature.flatten(args, kwargs) if pass_data else None,
        clusters,
        optimizer,
        batch,
        current_seed() if seed is None else seed,
        population or 0,
        generations or 0,
    )
    plan = Plan(core, program)
    if picture is not None:
        plan.picture(picture)
    if out is not None:
        plan.save(out)
    if verbose:
        print(plan.log, end="\n\n")
        print(plan)
    return plan


def simulate(
    model: nn.Module | Program | str | os.PathLike,
    example_args: tuple | torch.Tensor = (),
    example_kwargs: dict[str, Any] | None = None,
    *,
    nodes: str | os.PathLike = "node_data/node_configs.json",
    clusters: int | str | None = None,
    optimizer: str = "adam",
    batch: int | None = None,
    **options: Any,
) -> Simulation:
    """Plans as `clusterize` does, writes nothing, and simulates a run (see `Plan.simulate`)."""
    plan = clusterize(
        model,
        example_args,
        example_kwargs,
        nodes=nodes,
        clusters=clusters,
        optimizer=optimizer,
        batch=batch,
        seed=options.get("seed"),
        out=None,
        verbose=False,
    )
    return plan.simulate(**options)


def _are_positive(pair: Any) -> bool:
    return (
        isinstance(pair, (tuple, list))
        and len(pair) == 2
        and all(isinstance(x, (int, float)) and x > 0 for x in pair)
    )


def _check_number(name: str, value: Any, least: int, most: int = 2**63 - 1) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(
            f"[planning] expected {name} to be a whole number from {least} to {most}, got "
            f"{value!r}."
        )


def _batch_of(program: Program, args: tuple, kwargs: dict[str, Any]) -> int | None:
    """The examples' batch, for a model that was captured before and takes any."""
    leaves = pytree.tree_leaves((args, kwargs))
    batches = [x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim() > 0]
    return batches[0] if batches and program._core.symbols else None
