-- +goose Up
-- Endpoints of merchants that receive webhooks. They exist before their events.
CREATE TABLE webhook_endpoints (
    id         text   PRIMARY KEY,
    merchant   text   NOT NULL REFERENCES merchants (name),
    url        text   NOT NULL,
    secret     text   NOT NULL,
    old_secret text   NOT NULL DEFAULT '',
    old_until  bigint NOT NULL DEFAULT 0,
    disabled   text   NOT NULL DEFAULT '' CHECK (disabled IN ('', 'gone', 'merchant')),
    created    bigint NOT NULL
);
CREATE UNIQUE INDEX webhook_endpoints_url ON webhook_endpoints (merchant, url);

-- Events of sales whose merchant has an endpoint. The subject is a reservation or a sale.
CREATE TABLE outbox (
    id      text   PRIMARY KEY,
    subject text   NOT NULL,
    seq     bigint NOT NULL CHECK (seq > 0),
    sale    text   NOT NULL REFERENCES sales (id),
    type    text   NOT NULL,
    body    text   NOT NULL,
    at      bigint NOT NULL,
    UNIQUE (subject, seq)
);
CREATE INDEX outbox_at ON outbox (at);

CREATE TABLE webhook_deliveries (
    endpoint text   NOT NULL REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
    event    text   NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    subject  text   NOT NULL,
    seq      bigint NOT NULL,
    type     text   NOT NULL,
    at       bigint NOT NULL,
    state    text   NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead', 'skipped')),
    attempts int    NOT NULL DEFAULT 0,
    lease    bigint NOT NULL DEFAULT 0,
    due      bigint NOT NULL,
    PRIMARY KEY (endpoint, event)
);
CREATE UNIQUE INDEX webhook_deliveries_subject ON webhook_deliveries (endpoint, subject, seq);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint, due) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (state, at) WHERE state IN ('pending', 'dead');
CREATE INDEX webhook_deliveries_at ON webhook_deliveries (endpoint, at, event);
CREATE INDEX webhook_deliveries_event ON webhook_deliveries (event);

CREATE TABLE webhook_attempts (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint    text   NOT NULL,
    event       text   NOT NULL,
    at          bigint NOT NULL,
    status      int    NOT NULL,
    duration_ms bigint NOT NULL,
    error       text   NOT NULL,
    response    text   NOT NULL,
    FOREIGN KEY (endpoint, event) REFERENCES webhook_deliveries (endpoint, event) ON DELETE CASCADE
);
CREATE INDEX webhook_attempts_event ON webhook_attempts (endpoint, event, id);
