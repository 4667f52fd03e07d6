-- The tables of a book in Postgres.
--
-- `line` and `segment` are the book, and are only ever added to. `record` says where a record lies, and has its wrapped key,
-- which is all that forgetting destroys. `call`, `unsettled`, `leave` and `leave_use` are projections: `rebuild` makes them
-- again from the lines.
--
-- A tenant belongs to one of eight shards, and a record to the month in which the book first heard of it. So old months can
-- be put away, and what is asked for one tenant looks at an eighth of everything.

-- What the book was made with: marks of keys, never keys.
CREATE TABLE meta(
    name text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);

-- The end of the book, and how many rows each shard has. Whoever writes holds this row until it has committed: so places are
-- handed out without holes, and whoever has seen a place has seen all before it.
CREATE TABLE book_end(
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    pos bigint NOT NULL,
    places bigint[] NOT NULL,
    -- Never goes back, whatever the clock does.
    month integer NOT NULL
);
INSERT INTO book_end(pos, places, month) VALUES (0, '{0,0,0,0,0,0,0,0}', 0);

-- The months in which records began, each with the first place of it: a list goes back through them one by one.
CREATE TABLE month(
    month integer PRIMARY KEY,
    first bigint NOT NULL
);

-- One row per append: all its lines, and the sealed contents that they speak of. `head` is the link of the last line. `pos`
-- is the place in the book, `place` the one in the shard, by which it is sealed.
CREATE TABLE line(
    shard smallint NOT NULL,
    month integer NOT NULL,
    call uuid NOT NULL,
    seq integer NOT NULL,
    count integer NOT NULL,
    kind smallint NOT NULL,
    pos bigint NOT NULL,
    place bigint NOT NULL,
    head bytea NOT NULL,
    body bytea NOT NULL,
    contents bytea NOT NULL,
    PRIMARY KEY (shard, month, call, seq)
) PARTITION BY LIST (shard);
CREATE INDEX line_pos ON line(pos);
CREATE INDEX line_act ON line(pos) WHERE kind = 1;

-- Where a record or an act lies: found by its id alone, which is there once in all shards and months. So it is in one piece.
CREATE TABLE record(
    call uuid PRIMARY KEY,
    shard smallint NOT NULL,
    month integer NOT NULL,
    first bigint NOT NULL,
    key bytea,
    forgotten boolean NOT NULL
);

-- Calls that are forgotten, also those of which the book has not heard yet.
CREATE TABLE forgotten(
    call uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    PRIMARY KEY (call, tenant)
);

-- What came before the lines that it stands behind. It is no part of the book until they are there.
CREATE TABLE early(
    call uuid NOT NULL,
    seq integer NOT NULL,
    count integer NOT NULL,
    before bytea NOT NULL,
    head bytea NOT NULL,
    body bytea NOT NULL,
    contents bytea NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    summary text COLLATE "C" NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (call, seq)
);

CREATE TABLE segment(
    number bigint PRIMARY KEY,
    shard smallint NOT NULL,
    upto bigint NOT NULL,
    body bytea NOT NULL,
    signature bytea NOT NULL
);
CREATE INDEX segment_shard ON segment(shard, number);

-- Who may seal, until when. The number grows with every new holder: what an old one still sends is refused by it.
CREATE TABLE sealer(
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    fence bigint NOT NULL,
    holder uuid,
    until timestamptz NOT NULL
);
INSERT INTO sealer(fence, until) VALUES (0, '-infinity');

-- `pos` is that of the first row of the record. No index has a column that changes, so that a change touches none.
CREATE TABLE call(
    shard smallint NOT NULL,
    month integer NOT NULL,
    pos bigint NOT NULL,
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    summary text COLLATE "C" NOT NULL,
    opened_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    state smallint NOT NULL,
    outcome text COLLATE "C",
    code text COLLATE "C",
    asked boolean NOT NULL,
    length integer NOT NULL,
    head bytea NOT NULL,
    PRIMARY KEY (pos, shard, month)
) PARTITION BY LIST (shard);
CREATE INDEX call_tenant ON call(tenant, pos);
CREATE INDEX call_session ON call(session, pos);

-- Calls that are not settled, with the question that they wait at. `asked` is the place of the row that asked it.
CREATE TABLE unsettled(
    shard smallint NOT NULL,
    month integer NOT NULL,
    first bigint NOT NULL,
    call uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    asked bigint,
    question uuid,
    kind smallint,
    asked_at bigint,
    expires_at bigint,
    PRIMARY KEY (shard, first)
) PARTITION BY LIST (shard);
CREATE INDEX question_open ON unsettled(asked) WHERE asked IS NOT NULL;
CREATE INDEX question_tenant ON unsettled(tenant, asked) WHERE asked IS NOT NULL;
CREATE INDEX question_session ON unsettled(session, asked) WHERE asked IS NOT NULL;
-- Nearly all are approvals, which are found along the list itself.
CREATE INDEX question_kind ON unsettled(kind, asked) WHERE asked IS NOT NULL AND kind <> 0;

-- Where leaves were given, and where they were used. Both only say where to look.
CREATE TABLE leave(
    tenant text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    call uuid NOT NULL,
    PRIMARY KEY (tenant, tool, id, call)
);
CREATE TABLE leave_use(
    tenant text COLLATE "C" NOT NULL,
    leave uuid NOT NULL,
    call uuid NOT NULL,
    attempt uuid NOT NULL,
    PRIMARY KEY (tenant, leave, call, attempt)
);

DO $$
BEGIN
    FOR n IN 0..7 LOOP
        EXECUTE format('CREATE TABLE line_%s PARTITION OF line FOR VALUES IN (%s) PARTITION BY RANGE (month)', n, n);
        EXECUTE format('CREATE TABLE call_%s PARTITION OF call FOR VALUES IN (%s) PARTITION BY RANGE (month)', n, n);
        EXECUTE format('CREATE TABLE unsettled_%s PARTITION OF unsettled FOR VALUES IN (%s)', n, n);
    END LOOP;
END
$$;

-- The month that it is, counted from the year 0.
CREATE FUNCTION this_month() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT (extract(year FROM now() AT TIME ZONE 'UTC') * 12 + extract(month FROM now() AT TIME ZONE 'UTC') - 1)::integer
$$;

-- Makes the partitions of a month. They are made beside and attached, which lets others go on reading and writing.
CREATE FUNCTION prepare_month(month integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    leaf text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('byleave month ' || current_schema()));
    FOR n IN 0..7 LOOP
        FOREACH parent IN ARRAY ARRAY['line', 'call'] LOOP
            leaf := format('%s_%s_%s', parent, n, month);
            CONTINUE WHEN to_regclass(quote_ident(leaf)) IS NOT NULL;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', leaf, parent || '_' || n);
            -- Room on each page for the changes that a call goes through.
            IF parent = 'call' THEN
                EXECUTE format('ALTER TABLE %I SET (fillfactor = 70)', leaf);
            END IF;
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                parent || '_' || n, leaf, month, month + 1);
        END LOOP;
    END LOOP;
END
$$;
