# The gateway and nothing else; servers that need Node.js or other programs want an image made from this one.
FROM python:3.13-slim AS build
WORKDIR /source
COPY requirements/run.txt requirements/
RUN python -m venv /opt/trunkline \
    && /opt/trunkline/bin/pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/trunkline/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
COPY --from=build /opt/trunkline /opt/trunkline
RUN useradd --uid 10001 --create-home trunkline && install -d -o trunkline -m 0700 /var/lib/trunkline
USER 10001
ENV PATH=/opt/trunkline/bin:$PATH TRUNKLINE_HOME=/var/lib/trunkline PYTHONUNBUFFERED=1
VOLUME /var/lib/trunkline
EXPOSE 7420
HEALTHCHECK --interval=30s --timeout=5s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7420/healthz', timeout=4)"]
ENTRYPOINT ["trunkline"]
CMD ["up", "--host", "0.0.0.0", "--config", "/etc/trunkline/trunkline.toml"]
