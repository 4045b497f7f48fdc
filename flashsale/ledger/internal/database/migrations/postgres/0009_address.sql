-- +goose Up
-- Whether a sale asks for the delivery address of an order.
ALTER TABLE sales ADD COLUMN address text NOT NULL DEFAULT 'none' CHECK (address IN ('none', 'optional', 'required'));

-- The delivery address, as JSON. An order with one has a name and a phone.
ALTER TABLE orders ADD COLUMN address text NOT NULL DEFAULT '' CHECK (length(address) <= 4000 AND (address = '' OR name <> ''));
