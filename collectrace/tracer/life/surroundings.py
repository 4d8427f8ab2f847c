"""The command line and the environment of a process, without secrets.

People send logs to others. So only variables on a fixed list are recorded, and text of a command
line that looks like a secret becomes ``***``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

HIDDEN: Final = "***"
"""Replaces a secret."""

_LISTED: Final = """
CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES
OMP_NUM_THREADS ROCR_VISIBLE_DEVICES TP_SOCKET_IFNAME

TORCH_CPP_LOG_LEVEL TORCH_DISTRIBUTED_DEBUG TORCH_DIST_INIT_BARRIER TORCH_DIST_USE_NCCL2
TORCH_FR_BUFFER_SIZE TORCH_FR_CPP_STACK TORCH_FR_DUMP_DYNAMIC_FILE_NAME TORCH_FR_DUMP_TEMP_FILE
TORCH_GLOO_LAZY_INIT TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_AVOID_RECORD_STREAMS
TORCH_NCCL_BCAST_UNIQUEID TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_COORD_CHECK_MILSEC
TORCH_NCCL_CUDA_EVENT_CACHE TORCH_NCCL_DEBUG_INFO_PIPE_FILE TORCH_NCCL_DEBUG_INFO_TEMP_FILE
TORCH_NCCL_DESYNC_DEBUG TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_NCCL_ENABLE_MONITORING
TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_EXTRA_DUMP_ON_EXEC TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC
TORCH_NCCL_HIGH_PRIORITY TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN TORCH_NCCL_NAN_CHECK
TORCH_NCCL_PROPAGATE_ERROR TORCH_NCCL_RANKS_PER_ROOT TORCH_NCCL_RETHROW_CUDA_ERRORS
TORCH_NCCL_TRACE_BUFFER_SIZE TORCH_NCCL_TRACE_CPP_STACK TORCH_NCCL_USE_COMM_NONBLOCKING
TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC

GLOO_ASYNC_TIMEOUT_DEBUG GLOO_BACKEND_NAME GLOO_DEVICE_TRANSPORT GLOO_DISABLE_CONNECTION_RETRIES
GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER GLOO_ENABLE_STORE_V2_API GLOO_LOG_LEVEL GLOO_SOCKET_IFNAME

NCCL_ALGO NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT NCCL_BUFFSIZE NCCL_CGA_CLUSTER_SIZE
NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS NCCL_COLLNET_ENABLE NCCL_COMM_BLOCKING NCCL_CONF_FILE
NCCL_CROSS_NIC NCCL_CTA_POLICY NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE NCCL_DEBUG NCCL_DEBUG_FILE
NCCL_DEBUG_SUBSYS NCCL_DMABUF_ENABLE NCCL_GRAPH_DUMP_FILE NCCL_GRAPH_FILE NCCL_GRAPH_MIXING_SUPPORT
NCCL_GRAPH_REGISTER NCCL_HOSTID NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE
NCCL_IB_CUDA_SUPPORT NCCL_IB_DISABLE NCCL_IB_ECE_ENABLE NCCL_IB_FIFO_TC NCCL_IB_GID_INDEX
NCCL_IB_HCA NCCL_IB_MERGE_NICS NCCL_IB_MERGE_VFS NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_PKEY
NCCL_IB_QPS_PER_CONNECTION NCCL_IB_RETRY_CNT NCCL_IB_RETURN_ASYNC_EVENTS NCCL_IB_ROCE_VERSION_NUM
NCCL_IB_SL NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_TC NCCL_IB_TIMEOUT NCCL_IGNORE_CPU_AFFINITY
NCCL_LAUNCH_MODE NCCL_LAUNCH_ORDER_IMPLICIT NCCL_LL_THRESHOLD NCCL_LOCAL_REGISTER NCCL_MAX_CTAS
NCCL_MAX_NCHANNELS NCCL_MAX_NRINGS NCCL_MAX_P2P_NCHANNELS NCCL_MIN_CTAS NCCL_MIN_NCHANNELS
NCCL_MIN_NRINGS NCCL_MIN_P2P_NCHANNELS NCCL_MNNVL_CLIQUE_ID NCCL_MNNVL_ENABLE NCCL_MNNVL_UUID
NCCL_NCHANNELS_PER_NET_PEER NCCL_NET NCCL_NETDEVS_POLICY NCCL_NET_DISABLE_INTRA
NCCL_NET_FORCE_MERGE NCCL_NET_GDR_C2C NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_NET_PLUGIN
NCCL_NET_SHARED_BUFFERS NCCL_NET_SHARED_COMMS NCCL_NSOCKS_PERTHREAD NCCL_NTHREADS NCCL_NVB_DISABLE
NCCL_NVLS_ENABLE NCCL_OOB_NET_ENABLE NCCL_OOB_NET_IFNAME NCCL_P2P_DIRECT_DISABLE NCCL_P2P_DISABLE
NCCL_P2P_LEVEL NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_NVL_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE
NCCL_P2P_PXN_LEVEL NCCL_P2P_USE_CUDA_MEMCPY NCCL_PROFILER_PLUGIN NCCL_PROGRAM_CONNECT_TIMEOUT
NCCL_PROTO NCCL_PXN_C2C NCCL_PXN_DISABLE NCCL_RAS_ADDR NCCL_RAS_ENABLE NCCL_RAS_TIMEOUT_FACTOR
NCCL_RUNTIME_CONNECT NCCL_SHM_DISABLE NCCL_SINGLE_PROC_MEM_REG_ENABLE NCCL_SINGLE_RING_THRESHOLD
NCCL_SOCKET_FAMILY NCCL_SOCKET_IFNAME NCCL_SOCKET_NTHREADS NCCL_SOCKET_RETRY_CNT
NCCL_SOCKET_RETRY_SLEEP_MSEC NCCL_SPLIT_DATA_ON_QPS NCCL_SYM_CTAS NCCL_TOPO_DUMP_FILE
NCCL_TOPO_FILE NCCL_TUNER_PLUGIN NCCL_WIN_ENABLE NCCL_WIN_STRIDE NCCL_WORK_ARGS_BYTES
NCCL_WORK_FIFO_BYTES NCCL_WORK_FIFO_DEPTH

TORCHELASTIC_ENABLE_FILE_TIMER TORCHELASTIC_ERROR_FILE TORCHELASTIC_HEALTH_CHECK_PORT
TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RESTART_COUNT TORCHELASTIC_RUN_ID
TORCHELASTIC_SIGNALS_TO_HANDLE TORCHELASTIC_TIMER_FILE TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT
TORCHELASTIC_USE_AGENT_STORE
"""
_VARIABLES: Final = frozenset(_LISTED.split())
"""Variables that change how collectives behave, or show who launched the job: of torch 2.13
(strings of libtorch_cpu.so, torch/distributed) and of NCCL's documentation (2.27). They are listed
one by one, as a prefix would include variables that a site or a script adds."""

_SECRET: Final = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|auth|cookie|signature|bearer|private|webhook|dsn"
    r"|(^|[-_.])(key|pat|sas)s?($|[-_.])|api_?key|access_?key",
    re.IGNORECASE,
)
"""If the name of a setting matches, its value is a secret."""

_NO_SECRET: Final = re.compile(
    r"token(s$|izer|[-_]?(id|len|count|num|type|file))|(max|num|min|new|pad|eos|bos|n)[-_].*tokens?",
    re.IGNORECASE,
)
"""Names about tokens of a language model, which are not secret."""

_LOOKS_SECRET: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:hf|ghp|gho|ghs|ghu|glpat|github_pat|xox[abprs]|sk|pk|rk|AIza|ya29|dop_v1|npm|pypi|nvapi|wandb)"
    r"[-_.]?[A-Za-z0-9_-]{16,}"
    r"|A(?:KI|SI)A[A-Z0-9]{12,}"
    r"|eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}"
    r"|[0-9a-fA-F]{32,}"
    r"|(?=[A-Za-z0-9+/_]*[0-9])(?=[A-Za-z0-9+/_]*[a-z])(?=[A-Za-z0-9+/_]*[A-Z])[A-Za-z0-9+/_]{32,}=*"
    r")"
)
"""Keys of well-known services, and long words that look generated."""

_USER: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""The user and password of a URL."""

_SETTING: Final = re.compile(r"([-+]*[A-Za-z_][\w.-]*)([=:])(.*)", re.DOTALL)
_FLAG: Final = re.compile(r"--?[A-Za-z_][\w.-]*")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to record, by name, with secrets in their values hidden."""
    return {name: _plain(variables[name]) for name in sorted(_VARIABLES & variables.keys())}


def arguments(argv: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line, with secrets hidden."""
    expects_secret = False
    for word in argv:
        setting = _SETTING.fullmatch(word)
        flag = _FLAG.fullmatch(word)
        if flag is not None:
            yield word
        elif expects_secret:
            yield HIDDEN
        elif setting is not None and _is_secret(setting[1]):
            yield f"{setting[1]}{setting[2]}{HIDDEN}"
        else:
            yield _plain(word)
        expects_secret = flag is not None and _is_secret(word)


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


def _plain(value: str) -> str:
    """Return a value with everything hidden that looks like a secret."""
    return _LOOKS_SECRET.sub(HIDDEN, _USER.sub(HIDDEN, value))
