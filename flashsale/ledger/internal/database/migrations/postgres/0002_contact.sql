-- +goose Up
-- Who is to get what an order buys, as its buyer says.
ALTER TABLE orders ADD COLUMN name text NOT NULL DEFAULT '' CHECK (length(name) <= 60 AND (name = '' OR state NOT IN ('rejected', 'lost')));
ALTER TABLE orders ADD COLUMN phone text NOT NULL DEFAULT '' CHECK (length(phone) <= 40 AND (phone = '') = (name = ''));
