-- +goose Up
-- Payments that were opened at a provider. The ID is PROVIDER:REF.
CREATE TABLE checkouts (
    id          text   PRIMARY KEY,
    provider    text   NOT NULL,
    reservation text   NOT NULL,
    sale        text   NOT NULL REFERENCES sales (id),
    receipt     text   NOT NULL,
    attempt     int    NOT NULL CHECK (attempt BETWEEN 1 AND 100),
    amount      bigint NOT NULL CHECK (amount > 0),
    currency    text   NOT NULL CHECK (length(currency) = 3),
    url         text   NOT NULL,
    state       text   NOT NULL CHECK (state IN ('open', 'closed', 'paid')),
    opened      bigint NOT NULL,
    pay_by      bigint NOT NULL,
    due         bigint NOT NULL,
    tries       int    NOT NULL DEFAULT 0
);
CREATE INDEX checkouts_reservation ON checkouts (reservation);
CREATE INDEX checkouts_due ON checkouts (due) WHERE state = 'open';

-- What providers have reported. A paid event waits until its reservation is an order.
CREATE TABLE payment_events (
    payment     text   NOT NULL REFERENCES checkouts (id),
    kind        text   NOT NULL CHECK (kind IN ('pending', 'failed', 'closed', 'paid', 'refunded', 'refund_failed')),
    refund_key  text   NOT NULL,
    event       text   NOT NULL,
    reservation text   NOT NULL,
    amount      bigint NOT NULL,
    currency    text   NOT NULL,
    at          bigint NOT NULL,
    received    bigint NOT NULL,
    waits       int    NOT NULL CHECK (waits IN (0, 1)),
    CHECK (waits = 0 OR kind = 'paid'),
    PRIMARY KEY (payment, kind, refund_key)
);
CREATE INDEX payment_events_waiting ON payment_events (reservation) WHERE waits = 1;

-- Payments that go back to their buyers.
CREATE TABLE refunds (
    payment     text   PRIMARY KEY REFERENCES payments (id),
    reservation text   NOT NULL REFERENCES orders (reservation),
    state       text   NOT NULL CHECK (state IN ('due', 'sent', 'done', 'failed')),
    tries       int    NOT NULL DEFAULT 0,
    due         bigint NOT NULL,
    changed     bigint NOT NULL,
    error       text   NOT NULL DEFAULT ''
);
CREATE INDEX refunds_reservation ON refunds (reservation);
CREATE INDEX refunds_due ON refunds (due) WHERE state IN ('due', 'sent');

-- Keys of providers, encrypted by the secret of the shop. The newest signs.
CREATE TABLE payment_keys (
    provider text   NOT NULL,
    id       bigint NOT NULL,
    sealed   text   NOT NULL,
    created  bigint NOT NULL,
    PRIMARY KEY (provider, id)
);
