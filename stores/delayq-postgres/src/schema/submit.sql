-- Submits. PINNED stands for the settings of every function: the path of names, and the plans that
-- it may not take, whatever the statistics say.

-- The store's clock in microseconds. now() would stand still in a transaction.
CREATE FUNCTION clock_us() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- The check value of a task's content.
CREATE FUNCTION checksum_v1(p_message bytea, p_headers text, p_expires_at bigint, p_expires_after bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || encode(substring(sha256(
        int8send(octet_length(p_message)) || p_message || convert_to(coalesce(p_headers, ''), 'UTF8')
        || int8send(coalesce(p_expires_at, -1)) || int8send(coalesce(p_expires_after, -1))
    ) FROM 1 FOR 8), 'hex'))::bit(64)::bigint
$$;

-- The number of a type, which is made if it is new.
CREATE FUNCTION type_v1(p_namespace text, p_name text) RETURNS int PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_id int;
BEGIN
    SELECT id INTO v_id FROM types WHERE namespace = p_namespace AND name = p_name;
    IF FOUND THEN
        RETURN v_id;
    END IF;
    INSERT INTO types (namespace, name) VALUES (p_namespace, p_name)
        ON CONFLICT (namespace, name) DO NOTHING RETURNING id INTO v_id;
    IF v_id IS NULL THEN
        SELECT id INTO STRICT v_id FROM types WHERE namespace = p_namespace AND name = p_name;
    END IF;
    INSERT INTO counts (type) VALUES (v_id) ON CONFLICT (type) DO NOTHING;
    RETURN v_id;
END $$;

-- The transaction from which on the ledger has rows. A database that was restored into another
-- cluster has a number from the old one, which may be in the future here.
CREATE FUNCTION folded_v1(p_folded xid8) RETURNS xid8 STABLE LANGUAGE sql AS $$
    SELECT CASE WHEN p_folded <= pg_snapshot_xmax(pg_current_snapshot()) THEN p_folded ELSE '0' END
$$;

-- The counts of a type as of now: the sums, and what the ledger has beside them.
CREATE FUNCTION counts_v1(p_type int) RETURNS counts PINNED STABLE LANGUAGE sql AS $$
    SELECT c.type, c.scheduled + coalesce(sum(l.scheduled), 0)::bigint,
        c.running + coalesce(sum(l.running), 0)::bigint, c.dead + coalesce(sum(l.dead), 0)::bigint,
        c.ended + coalesce(sum(l.ended), 0)::bigint, c.done + coalesce(sum(l.done), 0)::bigint,
        c.died + coalesce(sum(l.died), 0)::bigint,
        c.cancelled + coalesce(sum(l.cancelled), 0)::bigint,
        c.expired + coalesce(sum(l.expired), 0)::bigint,
        c.failed + coalesce(sum(l.failed), 0)::bigint,
        c.refused + coalesce(sum(l.refused), 0)::bigint,
        greatest(c.fence, max(l.fence)), c.forgotten, c.folded
    FROM counts c LEFT JOIN ledger l ON l.type = c.type AND l.xid >= folded_v1(c.folded)
    WHERE c.type = p_type GROUP BY c.type
$$;

-- Submits tasks, given as arrays. p_type is the index of a task's type in p_names. A task has a
-- delay (p_delay, and p_after as it counts), or a time (p_due). p_conflict: 0 reject, 1 keep,
-- 2 replace, 3 debounce. p_is_exact: max_pending holds exactly, by a lock of the type.
-- outcome: 0 accepted, 1 replaced, 2 runs again, 3 exists, 4 conflict, 5 full (due: the number of
-- scheduled tasks, most: the limit).
CREATE FUNCTION submit_v1(
    p_namespace text, p_retention bigint, p_is_exact boolean, p_names text[], p_type int[],
    p_id text[], p_after bigint[], p_delay bigint[], p_due bigint[], p_expires_at bigint[],
    p_expires_after bigint[], p_conflict smallint[], p_max_wait bigint[], p_again boolean[],
    p_checksum bigint[], p_headers text[], p_message bytea[]
) RETURNS TABLE (o_n int, o_outcome smallint, o_due bigint, o_state smallint, o_most bigint)
PINNED LANGUAGE plpgsql AS $$
DECLARE
    c_max CONSTANT bigint := 253402207199999;
    v_us bigint := clock_us();
    v_now bigint := v_us / 1000;
    v_up bigint := (v_us + 999) / 1000;
    v_types int[] := '{}';
    v_limits bigint[] := '{}';
    v_pending bigint[] := '{}';
    v_scheduled int[] := array_fill(0, ARRAY[cardinality(p_names)]);
    v_dead int[] := v_scheduled;
    v_ended int[] := v_scheduled;
    v_refused int[] := v_scheduled;
    v_at bigint[];
    -- The submit times: where a delay counts from.
    v_since bigint[];
    v_made_types int[];
    v_made_ids text[];
    v_name text;
    v_type int;
    v_limit bigint;
    v_n int;
    v_i int;
    v_first bigint;
    v_due bigint;
    v_delay bigint;
    v_is_known boolean;
    v_is_same boolean;
    v_task tasks;
BEGIN
    FOREACH v_name IN ARRAY p_names LOOP
        v_type := type_v1(p_namespace, v_name);
        -- A drop of the type waits for this transaction, and this one for a drop.
        PERFORM pg_advisory_xact_lock_shared('types'::regclass::oid::int, v_type);
        SELECT max_pending INTO v_limit FROM types WHERE id = v_type;
        IF v_limit IS NOT NULL AND p_is_exact THEN
            SELECT max_pending INTO v_limit FROM types WHERE id = v_type FOR UPDATE;
        END IF;
        v_types := v_types || v_type;
        v_limits := v_limits || v_limit;
        v_pending := v_pending
            || CASE WHEN v_limit IS NOT NULL THEN (counts_v1(v_type)).scheduled END;
        UPDATE types SET is_listed = true WHERE id = v_type AND NOT is_listed;
    END LOOP;
    SELECT array_agg(CASE
        WHEN u.after IS NULL THEN greatest(u.due, v_now)
        WHEN u.after = 0 THEN v_now
        ELSE least(v_up + u.after, c_max)
    END ORDER BY u.n), array_agg(CASE WHEN u.after > 0 THEN v_up ELSE v_now END ORDER BY u.n)
        INTO v_at, v_since FROM unnest(p_after, p_due) WITH ORDINALITY AS u(after, due, n);

    -- The usual case: no id is taken. The order of the rows keeps two calls from waiting for each
    -- other.
    WITH made AS (
        INSERT INTO tasks (type, id, at, due, submitted, checksum, delay, expires_at,
                expires_after, headers, message)
            SELECT v_types[u.type], u.id, u.at, u.at, u.since, u.checksum, u.delay, u.expires_at,
                u.expires_after, u.headers, u.message
            FROM unnest(p_type, p_id, v_at, v_since, p_checksum, p_delay, p_expires_at, p_expires_after,
                    p_headers, p_message) WITH ORDINALITY
                AS u(type, id, at, since, checksum, delay, expires_at, expires_after, headers, message, n)
            WHERE v_limits[u.type] IS NULL
            ORDER BY v_types[u.type], u.id, u.n
            ON CONFLICT (type, id) DO NOTHING
            RETURNING type, id
    )
    SELECT array_agg(type), array_agg(id) INTO v_made_types, v_made_ids FROM made;
    IF cardinality(v_made_ids) = cardinality(p_id) THEN
        INSERT INTO ledger (type, scheduled)
            SELECT m.type, count(*) FROM unnest(v_made_types) AS m(type) GROUP BY m.type;
        RETURN QUERY SELECT u.n::int, 0::smallint, u.at, 0::smallint, NULL::bigint
            FROM unnest(v_at) WITH ORDINALITY AS u(at, n);
        RETURN;
    END IF;

    -- Of equal ids in one call, the first was made.
    o_state := 0;
    FOR v_n, v_is_known IN
        SELECT u.n, u.n = min(u.n) OVER (PARTITION BY u.type, u.id) AND (v_types[u.type], u.id)
            IN (SELECT m.type, m.id FROM unnest(v_made_types, v_made_ids) AS m(type, id))
        FROM unnest(p_type, p_id) WITH ORDINALITY AS u(type, id, n)
        -- Under a limit the order of the call decides.
        ORDER BY v_types[u.type], CASE WHEN v_limits[u.type] IS NULL THEN u.id END, u.n
    LOOP
        v_i := p_type[v_n];
        v_type := v_types[v_i];
        o_n := v_n;
        o_due := v_at[v_n];
        o_outcome := 0;
        o_most := NULL;
        o_state := 0;
        IF v_is_known THEN
            v_scheduled[v_i] := v_scheduled[v_i] + 1;
            RETURN NEXT;
            CONTINUE;
        END IF;
        LOOP
            SELECT * INTO v_task FROM tasks WHERE type = v_type AND id = p_id[v_n] FOR UPDATE;
            v_is_known := FOUND;
            IF v_is_known OR v_pending[v_i] >= v_limits[v_i] THEN
                EXIT;
            END IF;
            INSERT INTO tasks (type, id, at, due, submitted, checksum, delay, expires_at,
                    expires_after, headers, message)
                VALUES (v_type, p_id[v_n], o_due, o_due, v_since[v_n], p_checksum[v_n], p_delay[v_n],
                    p_expires_at[v_n], p_expires_after[v_n], p_headers[v_n], p_message[v_n])
                ON CONFLICT (type, id) DO NOTHING;
            EXIT WHEN FOUND;
        END LOOP;
        IF NOT v_is_known AND v_pending[v_i] >= v_limits[v_i] THEN
            v_refused[v_i] := v_refused[v_i] + 1;
            o_outcome := 5;
            o_due := v_pending[v_i];
            o_most := v_limits[v_i];
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF NOT v_is_known THEN
            v_scheduled[v_i] := v_scheduled[v_i] + 1;
            v_pending[v_i] := v_pending[v_i] + 1;
            RETURN NEXT;
            CONTINUE;
        END IF;

        -- The id is taken.
        IF v_task.state = 1 AND p_again[v_n] THEN
            o_outcome := 2;
            SELECT at, submitted INTO v_due, v_first FROM follow_ups
                WHERE type = v_type AND id = p_id[v_n];
            IF FOUND AND p_conflict[v_n] = 1 THEN
                o_due := v_due;
                RETURN NEXT;
                CONTINUE;
            END IF;
            v_delay := p_delay[v_n];
            IF FOUND AND p_conflict[v_n] = 3 THEN
                o_due := greatest(least(o_due, v_first + p_max_wait[v_n]), v_now, v_first);
                v_delay := o_due - v_first;
            ELSE
                v_first := v_since[v_n];
            END IF;
            DELETE FROM follow_ups WHERE type = v_type AND id = p_id[v_n];
            INSERT INTO follow_ups (type, id, at, delay, submitted, expires_at, expires_after,
                    checksum, headers, message)
                VALUES (v_type, p_id[v_n], o_due, v_delay, v_first, p_expires_at[v_n],
                    p_expires_after[v_n], p_checksum[v_n], p_headers[v_n], p_message[v_n]);
            UPDATE tasks SET flags = flags | 4
                WHERE type = v_type AND id = p_id[v_n] AND flags & 4 = 0;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF v_task.state > 2 THEN
            v_is_same := v_task.at + p_retention > v_now AND v_task.checksum = p_checksum[v_n]
                AND p_conflict[v_n] < 2 AND NOT p_again[v_n];
            o_outcome := CASE WHEN v_is_same THEN 3 ELSE 0 END;
        ELSE
            v_is_same := v_task.checksum = p_checksum[v_n] AND v_task.message = p_message[v_n]
                AND v_task.headers IS NOT DISTINCT FROM p_headers[v_n]
                AND v_task.expires_at IS NOT DISTINCT FROM p_expires_at[v_n]
                AND v_task.expires_after IS NOT DISTINCT FROM p_expires_after[v_n]
                AND coalesce(CASE
                    WHEN v_task.delay IS NOT NULL THEN v_task.delay = p_delay[v_n]
                    ELSE v_task.due = greatest(p_due[v_n], v_task.submitted) AND p_delay[v_n] IS NULL
                END, false);
            o_outcome := CASE
                -- A delay counts from now, so the same request moves the task.
                WHEN v_is_same AND NOT (p_conflict[v_n] > 1 AND v_task.state <> 1
                    AND p_delay[v_n] IS NOT NULL) THEN 3
                WHEN p_conflict[v_n] = 1 THEN 3
                WHEN p_conflict[v_n] > 1 AND v_task.state <> 1 THEN 1
                ELSE 4
            END;
        END IF;
        IF o_outcome > 2 THEN
            o_state := v_task.state;
            o_due := NULL;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF o_outcome = 0 AND v_pending[v_i] >= v_limits[v_i] THEN
            v_refused[v_i] := v_refused[v_i] + 1;
            o_outcome := 5;
            o_due := v_pending[v_i];
            o_most := v_limits[v_i];
            RETURN NEXT;
            CONTINUE;
        END IF;
        v_first := v_since[v_n];
        v_delay := p_delay[v_n];
        IF p_conflict[v_n] = 3 AND v_task.state = 0 AND v_task.failures IS NULL
                AND v_task.lock_expiries IS NULL AND v_task.releases IS NULL THEN
            v_first := v_task.submitted;
            o_due := greatest(least(o_due, v_first + p_max_wait[v_n]), v_now, v_first);
            v_delay := o_due - v_first;
        END IF;
        UPDATE tasks SET state = 0, flags = 0, at = o_due, due = o_due, delay = v_delay,
                submitted = v_first, checksum = p_checksum[v_n], expires_at = p_expires_at[v_n],
                expires_after = p_expires_after[v_n], fence = NULL, settled = NULL,
                settled_by = NULL, failures = NULL, lock_expiries = NULL, releases = NULL,
                requeues = NULL, holder = NULL, succeeded = NULL, errors = NULL,
                last_error = NULL, note = NULL, headers = p_headers[v_n],
                message = p_message[v_n]
            WHERE type = v_type AND id = p_id[v_n];
        DELETE FROM follow_ups WHERE type = v_type AND id = p_id[v_n] AND v_task.flags & 4 <> 0;
        IF v_task.state > 0 THEN
            v_scheduled[v_i] := v_scheduled[v_i] + 1;
            v_pending[v_i] := v_pending[v_i] + 1;
        END IF;
        IF v_task.state = 2 THEN
            v_dead[v_i] := v_dead[v_i] - 1;
        ELSIF v_task.state > 2 THEN
            v_ended[v_i] := v_ended[v_i] - 1;
        END IF;
        RETURN NEXT;
    END LOOP;
    INSERT INTO ledger (type, scheduled, dead, ended, refused)
        SELECT v_types[i], v_scheduled[i], v_dead[i], v_ended[i], v_refused[i]
        FROM generate_subscripts(v_types, 1) i
        WHERE (v_scheduled[i], v_dead[i], v_ended[i], v_refused[i]) <> (0, 0, 0, 0);
END $$;
