# A witness by itself: nothing of the console.   docker build --file deploy/witness.Dockerfile .
FROM python:3.11-slim
RUN groupadd --system --gid 10001 counterfoil && useradd --system --uid 10001 --gid 10001 counterfoil
WORKDIR /opt/counterfoil-witness
COPY tlog ./tlog
COPY witness ./witness
RUN pip install --no-cache-dir ./tlog ./witness
ENV PYTHONUNBUFFERED=1
USER 10001:10001
