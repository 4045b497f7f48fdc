-- +goose Up
-- From where users bought: an address, or the first 64 bits of one of IPv6.
CREATE TABLE sightings (
    sale    text   NOT NULL REFERENCES sales (id),
    network text   NOT NULL CHECK (length(network) BETWEEN 1 AND 64),
    usr     text   NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (sale, network, usr)
);
