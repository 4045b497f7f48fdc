-- +goose Up
-- What a ticket costs in bits of work; 0 is nothing.
ALTER TABLE sales ADD COLUMN work int NOT NULL DEFAULT 0 CHECK (work BETWEEN 0 AND 24);
