-- +goose Up
-- SCHEMA.md describes the tables. Times are milliseconds since 1970, durations milliseconds.

CREATE TABLE sales (
    id            text   PRIMARY KEY,
    merchant      text   NOT NULL,
    sku           text   NOT NULL,
    title         text   NOT NULL,
    price         bigint NOT NULL CHECK (price BETWEEN 0 AND 1000000000000),
    currency      text   NOT NULL CHECK (length(currency) = 3),
    stock         bigint NOT NULL CHECK (stock BETWEEN 1 AND 1000000),
    per_user      int    NOT NULL CHECK (per_user BETWEEN 1 AND 10),
    starts_at     bigint NOT NULL,
    ends_at       bigint NOT NULL,
    headroom      int    NOT NULL CHECK (headroom BETWEEN 1 AND 10),
    queue         text   NOT NULL CHECK (queue IN ('fifo', 'shuffled', 'direct')),
    lobby_ms      bigint NOT NULL CHECK (lobby_ms BETWEEN 0 AND 3600000),
    pay_within_ms bigint NOT NULL CHECK (pay_within_ms BETWEEN 1000 AND 86400000),
    token_for_ms  bigint NOT NULL CHECK (token_for_ms BETWEEN 1000 AND 600000),
    sold          bigint NOT NULL DEFAULT 0,
    paid          bigint NOT NULL DEFAULT 0,
    state         text   NOT NULL DEFAULT 'draft' CHECK (state IN ('draft', 'exposed', 'paused', 'ended')),
    why           text   NOT NULL DEFAULT '' CHECK (why IN ('', 'merchant', 'killed', 'recovery')),
    recovering    int    NOT NULL DEFAULT 0 CHECK (recovering IN (0, 1)),
    epoch         bigint NOT NULL DEFAULT 0,
    version       bigint NOT NULL DEFAULT 1,
    created       bigint NOT NULL,
    CHECK (ends_at > starts_at),
    CONSTRAINT sold_within_stock CHECK (sold BETWEEN 0 AND stock),
    CONSTRAINT paid_within_sold CHECK (paid BETWEEN 0 AND sold),
    CHECK ((state = 'draft') = (epoch = 0)),
    CHECK (why <> 'recovery' OR (state = 'paused' AND recovering = 1))
);
CREATE INDEX sales_merchant ON sales (merchant, created, id);
CREATE INDEX sales_seen ON sales (created, id) WHERE state <> 'draft';
CREATE INDEX sales_live ON sales (id) WHERE state IN ('exposed', 'paused');

-- Every reservation in the ledger, with its outcome.
CREATE TABLE orders (
    reservation text   PRIMARY KEY,
    sale        text   NOT NULL REFERENCES sales (id),
    epoch       bigint NOT NULL,
    usr         text   NOT NULL,
    slot        int    NOT NULL,
    ticket      text   NOT NULL,
    key         text   NOT NULL,
    at          bigint NOT NULL,
    pay_by      bigint NOT NULL,
    state       text   NOT NULL,
    price       bigint NOT NULL,
    placed      bigint NOT NULL,
    changed     bigint NOT NULL,
    payment     text,
    returned    int    NOT NULL DEFAULT 0 CHECK (returned IN (0, 1)),
    note        text   NOT NULL DEFAULT '',
    CHECK (state IN ('pending_pay', 'paid', 'expired', 'cancelled', 'rejected', 'lost')),
    CHECK (state IN ('rejected', 'lost') OR slot BETWEEN 1 AND 10),
    CHECK ((state = 'paid') = (payment IS NOT NULL)),
    CHECK (returned = 0 OR state IN ('expired', 'cancelled'))
);
CREATE UNIQUE INDEX orders_ticket ON orders (sale, ticket) WHERE state IN ('pending_pay', 'paid', 'expired', 'cancelled');
CREATE UNIQUE INDEX orders_slot ON orders (sale, usr, slot) WHERE state IN ('pending_pay', 'paid');
CREATE INDEX orders_user ON orders (usr, at, reservation);
CREATE INDEX orders_sale ON orders (sale, at, reservation, state);
CREATE INDEX orders_due ON orders (pay_by) WHERE state = 'pending_pay';
CREATE INDEX orders_unreturned ON orders (changed) WHERE state IN ('expired', 'cancelled') AND returned = 0;

-- Every movement of units: 'stock' +n, 'sold' -1, 'returned' +1.
CREATE TABLE movements (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    sale        text   NOT NULL REFERENCES sales (id),
    kind        text   NOT NULL,
    units       bigint NOT NULL,
    reservation text   REFERENCES orders (reservation),
    key         text,
    at          bigint NOT NULL,
    CHECK (kind = 'stock' AND units > 0 AND reservation IS NULL AND key IS NOT NULL
        OR kind = 'sold' AND units = -1 AND reservation IS NOT NULL AND key IS NULL
        OR kind = 'returned' AND units = 1 AND reservation IS NOT NULL AND key IS NULL)
);
CREATE UNIQUE INDEX movements_once ON movements (reservation, kind) WHERE reservation IS NOT NULL;
CREATE UNIQUE INDEX movements_key ON movements (sale, key) WHERE key IS NOT NULL;
CREATE INDEX movements_sale ON movements (sale);

CREATE TABLE payments (
    id          text   PRIMARY KEY,
    reservation text   NOT NULL REFERENCES orders (reservation),
    amount      bigint NOT NULL CHECK (amount >= 0),
    state       text   NOT NULL CHECK (state IN ('accepted', 'refund_due')),
    at          bigint NOT NULL
);
CREATE INDEX payments_reservation ON payments (reservation);
CREATE UNIQUE INDEX payments_one ON payments (reservation) WHERE state = 'accepted';

-- Dead letters: entries of a stream that cannot become orders.
CREATE TABLE buried (
    sale        text   NOT NULL,
    epoch       bigint NOT NULL,
    entry       text   NOT NULL,
    deliveries  bigint NOT NULL,
    reservation text   NOT NULL,
    damaged     text   NOT NULL,
    reason      text   NOT NULL,
    at          bigint NOT NULL,
    PRIMARY KEY (sale, epoch, entry)
);

CREATE TABLE audit (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    at    bigint NOT NULL,
    actor text   NOT NULL,
    sale  text   NOT NULL,
    what  text   NOT NULL
);
CREATE INDEX audit_sale ON audit (sale, id);

CREATE TABLE merchants (
    name text PRIMARY KEY,
    hash text NOT NULL
);

-- The journal of a gate in this process: entries that are not orders yet. Replacing one
-- gives it a new id, behind the others.
CREATE TABLE stream (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    sale        text    NOT NULL,
    epoch       bigint  NOT NULL,
    entry       text    NOT NULL,
    reservation text    NOT NULL,
    UNIQUE (sale, entry)
);
CREATE INDEX stream_epoch ON stream (sale, epoch, id);
