-- +goose Up
-- Whether guests can buy: 1 is for buyers with an identity alone.
ALTER TABLE sales ADD COLUMN members_only int NOT NULL DEFAULT 0 CHECK (members_only IN (0, 1));

-- What a sale shows of its product, as JSON.
CREATE TABLE products (
    sale    text   PRIMARY KEY REFERENCES sales (id),
    body    text   NOT NULL,
    changed bigint NOT NULL
);

-- Pictures, re-encoded at several widths. The hash is of the original.
CREATE TABLE images (
    hash  text   NOT NULL,
    width int    NOT NULL CHECK (width BETWEEN 1 AND 4096),
    kind  text   NOT NULL,
    body  bytea  NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (hash, width)
);
