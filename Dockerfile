# rqbeat and an app, in a venv without pip, run by a user without rights.
#
#   docker build --build-arg APP_FOLDER=myapp -t myapp .      a folder beside this file becomes /app
#
# `rqbeat` is the entry point; `run` makes a container a beat, `worker` a worker. Which of the two it is decides how its
# health is judged, so the health check stands in docker-compose.yml.

FROM python:3.13-slim AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY shared shared
COPY worker worker
COPY scheduler scheduler
RUN python -m venv --without-pip /opt/venv \
 && python -m pip wheel --no-deps --wheel-dir /dist . \
 && python -m pip --python /opt/venv/bin/python install /dist/*.whl
# What the app needs beyond rqbeat stands in its requirements.txt.
ARG APP_FOLDER=examples
COPY ${APP_FOLDER} /app
RUN chmod -R a+rX /app \
 && if [ -f /app/requirements.txt ]; then python -m pip --python /opt/venv/bin/python install -r /app/requirements.txt; fi

FROM python:3.13-slim
# A volume that is mounted at /data takes over its owner.
RUN useradd --system --uid 10001 --user-group --home-dir /app --shell /usr/sbin/nologin rqbeat \
 && install -d -o rqbeat -g rqbeat /data
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
# The root is read-only in compose, so nothing may want to write beside the code.
ENV PATH=/opt/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
USER rqbeat
ENTRYPOINT ["rqbeat"]
CMD ["--help"]
