# An image with the environment that examples/setup.sh creates.
#   docker build -t aiayn .                             for the CPU
#   docker build -t aiayn --build-arg DEVICE=cuda .     for NVIDIA GPUs: docker run --gpus all …
# Python 3.12 is the version for which fairseq has a wheel, so nothing is compiled.
FROM python:3.12-slim-bookworm
ARG DEVICE=cpu
ARG TORCH=2.14.1
# curl: downloads of aiayn wmt14; g++: torch.compile
RUN apt-get update && apt-get install -y --no-install-recommends curl g++ \
    && rm -rf /var/lib/apt/lists/*
# On Linux, the package index has torch for CUDA; torch for the CPU is a third of its size.
RUN [ "$DEVICE" = cuda ] || pip install --no-cache-dir "torch==$TORCH" \
    --index-url https://download.pytorch.org/whl/cpu
WORKDIR /aiayn
COPY . .
RUN PIP_NO_CACHE_DIR=1 TORCH="$TORCH" bash examples/setup.sh
ENV PATH=/aiayn/.venv/bin:$PATH
CMD ["aiayn", "--help"]
