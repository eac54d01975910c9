# For platforms that write into folders of user 0: the scorer's image with another user, and nothing else.
#   docker build -f docker/root.Dockerfile --build-arg IMAGE=mvc-scorer:0.1.0 docker
ARG IMAGE
FROM ${IMAGE}
USER 0:0
