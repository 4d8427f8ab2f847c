"""Names by which a condition is seen to ask for the rank."""

from __future__ import annotations

import pytest

from collectrace.align.reading.rank_names import RANK, is_asked


@pytest.mark.parametrize(
    "condition",
    [
        "if rank == 0:",
        "if int(os.environ['LOCAL_RANK']) == 0:",
        "if master_process:",
        "if utils.is_primary(args):",
        "if args.is_local_primary:",
        "if self.trainer.is_global_zero:",
        "if accelerator.is_main_process and step:",
        "if accelerator.is_local_main_process:",
        "if state.is_world_process_zero():",
        "if self.args.should_save:",
        "if jax.process_index() == 0:",
        "if accelerator.is_last_process:",
        "if du.is_master_proc():",
        "if du.is_root_proc():",
        "if if_main_process():",
        "if is_first_worker():",
        "if coordinator.is_node_master():",
        "if self.is_driver_worker:",
        "if self.is_coordinator:",
        "if strategy.is_rank_0():",
        "if gpu == 0:",
        "if args.gpu == 0 and step:",
        "if self.gpu_id != 0:",
    ],
)
def test_the_rank_is_asked_for(condition: str) -> None:
    assert RANK.search(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "if should_save:",
        "if self.should_save(step):",
        "if process:",
        "if primary_key in row:",
        "if masters:",
        "if is_primary_key:",
        "if index % 3:",
        "if remaining:",
        "if args.gpu:",
        "if args.gpu is not None:",
        "if num_gpu == 0:",
        "if gpus == 0:",
        "if gpu == 0.5:",
    ],
)
def test_what_only_looks_like_it_does_not(condition: str) -> None:
    assert not RANK.search(condition)


PROCESS = """
    rank ranks RANK LOCAL_RANK OMPI_COMM_WORLD_RANK local_rank global_rank node_rank dp_rank _rank
    dp_rank_ my_rank myrank localRank ddp_local_rank get_rank get_rank_safe rank_id rank0 rank0_only
    rank_zero_only is_rank_zero is_rank_0 is_last_rank rank_in_group is_rank_in_embedding_group
    get_tensor_model_parallel_rank
"""


@pytest.mark.parametrize("name", PROCESS.split())
def test_names_of_a_rank_of_a_process(name: str) -> None:
    assert RANK.fullmatch(name)
    assert RANK.search(f"if self.{name} == 0:")


OTHERS = """
    frank crank ranking ranked rerank rank_loss rank_score rank_size low_rank lora_rank matrix_rank
    effective_rank mean_rank full_rank page_rank num_ranks RANKS_PER_NODE PER_RANK mean_over_ranks
"""


@pytest.mark.parametrize("name", OTHERS.split())
def test_names_of_what_is_no_rank_of_a_process(name: str) -> None:
    assert not RANK.search(f"if self.{name} == 0:")


@pytest.mark.parametrize(
    ("value", "is_told"),
    [
        ("Writer() if rank == 0 else None", True),
        ("None if rank else Writer()", True),
        ("False if not is_main_process else Bar()", True),
        ("Writer() if path else None", False),
        ("Writer() if rank == 0 else Silent()", False),
        ("batches if rank == 0 else rest", False),
    ],
)
def test_what_is_there_on_some_ranks_only(value: str, is_told: bool) -> None:
    assert is_asked(value) == is_told
