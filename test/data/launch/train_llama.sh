#!/bin/bash
#SBATCH --nodes=8 --gpus-per-node=8
# Pre-training of an 8B model; positional: checkpoint folder.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}
WORLD_SIZE=$(($GPUS_PER_NODE * NNODES))
CHECKPOINT_PATH=${1:-"checkpoints/llama"}
TP=2
PP=4
DTYPE="bf16"

MODEL_ARGS=(
    --use-mcore-models
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope   # rotary
    --normalization RMSNorm
    --swiglu
    --attention-dropout 0.0 --hidden-dropout 0.0
    --untie-embeddings-and-output-weights
    --disable-bias-linear
    # --qk-layernorm
)
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size 256 \
    --lr 3.0e-4 --min-lr 3.0e-5 --train-samples 1000000 --clip-grad 1.0"
if [[ "$DTYPE" == "fp8" ]]; then
    TRAINING_ARGS="$TRAINING_ARGS --fp8-format hybrid"
elif [ $DTYPE = bf16 ]; then
    TRAINING_ARGS="$TRAINING_ARGS --bf16"
fi
PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size ${PP}
    --sequence-parallel
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
)
PARALLEL_ARGS+=("--tp-comm-overlap")

mkdir -p "$CHECKPOINT_PATH" || exit 1
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --master_addr ${MASTER_ADDR:-localhost} \
    pretrain_gpt.py ${MODEL_ARGS[@]} $TRAINING_ARGS "${PARALLEL_ARGS[@]}" \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B --vocab-size 128256 \
    --make-vocab-size-divisible-by 128 --save $CHECKPOINT_PATH --log-interval 1
