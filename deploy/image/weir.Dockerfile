# Weir without a shell or a package manager. It writes nothing, so the root may be read-only.
FROM scratch
ARG TARGETPLATFORM
COPY .bin/packages/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY $TARGETPLATFORM/weir /usr/bin/weir
# /bin/ratelimit, a link to it: the command that Envoy Gateway runs.
ADD .bin/packages/ratelimit.tar /
USER 65532:65532
EXPOSE 8000 8080 8081 6380 9090
ENTRYPOINT ["/usr/bin/weir"]
CMD ["serve"]
