# The flash sale without a shell or a package manager. With --data it writes only to that
# directory, a volume of user 65532; with --database and --redis nowhere.
FROM scratch
ARG TARGETPLATFORM
COPY .bin/packages/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY $TARGETPLATFORM/flashsale /usr/bin/flashsale
USER 65532:65532
EXPOSE 8088 8089
ENTRYPOINT ["/usr/bin/flashsale"]
CMD ["help"]
