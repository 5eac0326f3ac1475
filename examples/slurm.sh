#!/usr/bin/env bash
# Train on all GPUs of several nodes under SLURM, with one torchrun per node.
#   sbatch --nodes 4 --gpus-per-node 8 examples/slurm.sh DATA --arch aiayn_big --bf16 \
#     --max-tokens 12288 --save-dir DIRECTORY
# Without GPUs, PROCESSES is the number of processes per node, with fairseq's --cpu:
#   PROCESSES=2 sbatch --nodes 1 examples/slurm.sh DATA --cpu ...
# Submitted again or requeued, it resumes from the last checkpoint. DATA, --save-dir and .venv must be
# on a file system that all nodes share.
#SBATCH --job-name=aiayn
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
# Whole nodes: otherwise SLURM gives all processes of a job one core.
#SBATCH --exclusive
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?submit with sbatch from the root of the project}"
export PATH=$PWD/.venv/bin:$PATH OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600} # as in lib.sh
export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True} # as in lib.sh

processes=${PROCESSES:-${SLURM_GPUS_ON_NODE:-}}
: "${processes:?no GPUs in this job: request them with --gpus-per-node or set PROCESSES}"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun --ntasks-per-node=1 torchrun --nnodes "$SLURM_NNODES" --nproc_per_node "$processes" \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:${PORT:-29500}" \
  "$(command -v fairseq-train)" "$@" --user-dir aiayn_plugin
