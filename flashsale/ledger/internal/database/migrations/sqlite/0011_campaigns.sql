-- +goose Up
-- The campaign whose page shows the sale.
ALTER TABLE sales ADD COLUMN campaign text NOT NULL DEFAULT '' CHECK (length(campaign) <= 40);

-- The merchant of each campaign: no other merchant can add sales to it.
CREATE TABLE campaigns (
    name     text PRIMARY KEY,
    merchant text NOT NULL
);
