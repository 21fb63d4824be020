# Registry and gateway in one container, on embedded defaults under /data.
# Build: docker build -t dragoman .       Run: docker run -p 8081:8081 -p 8083:8083 -v data:/data dragoman
# The full image has the compiler that the native codecs need.
FROM python:3.11 AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
COPY examples ./examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
ARG EXTRAS=kafka,rabbitmq,nats,mqtt,redis,postgres,mysql,protobuf,gateway,observability
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[${EXTRAS}]" && rm -r /wheels \
    && useradd --system --home-dir /data dragoman && mkdir /data && chown dragoman /data
USER dragoman
WORKDIR /data
VOLUME /data
EXPOSE 8081 8083 8084/udp
# Inside a container, who can reach it is decided outside: by published ports and a proxy that speaks TLS.
ENV DRAGOMAN_SERVE_HOST=0.0.0.0 DRAGOMAN_SERVE_ALLOW_PUBLIC=true DRAGOMAN_SERVE_BEHIND_PROXY=true
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8083/ready', timeout=2)"]
ENTRYPOINT ["dragoman"]
CMD ["serve"]
