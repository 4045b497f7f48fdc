-- +goose Up
-- The accounts of a merchant. Each merchant so far becomes an account of its own name.
CREATE TABLE accounts (
    name     text   PRIMARY KEY,
    merchant text   NOT NULL REFERENCES merchants (name),
    role     text   NOT NULL CHECK (role IN ('view', 'service', 'manage', 'owner')),
    hash     text   NOT NULL,
    disabled int    NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    created  bigint NOT NULL
);
CREATE INDEX accounts_merchant ON accounts (merchant);
INSERT INTO accounts (name, merchant, role, hash, created) SELECT name, name, 'owner', hash, 0 FROM merchants;
ALTER TABLE merchants DROP COLUMN hash;

-- Changes of accounts are in the audit log without a sale.
ALTER TABLE audit ADD COLUMN merchant text NOT NULL DEFAULT '';
CREATE INDEX audit_merchant ON audit (merchant, id) WHERE merchant <> '';
