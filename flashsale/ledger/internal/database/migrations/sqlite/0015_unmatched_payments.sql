-- +goose Up
-- Money that a provider reports for a payment that was not opened here, until its reservation is an
-- order. The payment is PROVIDER:REF.
CREATE TABLE unmatched_payments (
    payment     text   NOT NULL,
    provider    text   NOT NULL,
    kind        text   NOT NULL CHECK (kind IN ('paid', 'refunded', 'refund_failed')),
    refund_key  text   NOT NULL,
    event       text   NOT NULL,
    reservation text   NOT NULL,
    amount      bigint NOT NULL CHECK (amount >= 0),
    currency    text   NOT NULL,
    at          bigint NOT NULL,
    received    bigint NOT NULL,
    PRIMARY KEY (payment, kind, refund_key)
);
CREATE INDEX unmatched_payments_reservation ON unmatched_payments (reservation);
