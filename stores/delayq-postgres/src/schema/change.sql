-- Operations on tasks by their ids, each for many tasks of a type. Rows are locked in the order of
-- the ids. An ended task counts as absent once its retention is over.

-- o_outcome: 0 cancelled, 1 running, 2 finished, 3 not found.
CREATE FUNCTION cancel_v1(p_namespace text, p_name text, p_retention bigint, p_ids text[])
RETURNS TABLE (o_n int, o_outcome smallint, o_state smallint) PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := clock_us() / 1000;
    v_type int;
    v_id text;
    v_at bigint;
    v_flags smallint;
    v_keep bigint;
    v_tid tid;
    v_cancelled int := 0;
BEGIN
    SELECT id, history INTO v_type, v_keep FROM types WHERE namespace = p_namespace AND name = p_name;
    FOR o_n, v_id IN SELECT u.n, u.id FROM unnest(p_ids) WITH ORDINALITY AS u(id, n) ORDER BY u.id, u.n
    LOOP
        SELECT state, at, flags, ctid INTO o_state, v_at, v_flags, v_tid FROM tasks
            WHERE type = v_type AND id = v_id FOR UPDATE;
        IF NOT FOUND OR o_state > 2 AND v_at + p_retention <= v_now THEN
            o_outcome := 3;
        ELSIF o_state = 0 THEN
            o_outcome := 0;
            v_cancelled := v_cancelled + 1;
            IF v_keep IS NOT NULL THEN
                PERFORM record_ends_v1(p_namespace, v_keep, ARRAY[v_tid], 3, v_now);
            END IF;
            UPDATE tasks t SET state = 4, at = v_now,
                    failures = nullif(coalesce(t.failures, 0) + coalesce(t.lock_expiries, 0), 0), EMPTIED
                WHERE t.type = v_type AND t.id = v_id;
            IF v_flags & 4 <> 0 THEN
                DELETE FROM follow_ups WHERE type = v_type AND id = v_id;
            END IF;
        ELSIF o_state = 1 THEN
            o_outcome := 1;
            UPDATE tasks SET flags = (flags | 1) & ~4 WHERE type = v_type AND id = v_id;
            IF v_flags & 4 <> 0 THEN
                DELETE FROM follow_ups WHERE type = v_type AND id = v_id;
            END IF;
        ELSE
            o_outcome := 2;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF v_cancelled > 0 THEN
        INSERT INTO ledger (type, scheduled, ended, cancelled)
            VALUES (v_type, -v_cancelled, v_cancelled, v_cancelled);
    END IF;
END $$;

-- Moves tasks: after a delay in ms, or to a time. o_outcome: 0 changed, 1 running, 2 finished,
-- 3 not found.
CREATE FUNCTION reschedule_v1(
    p_namespace text, p_name text, p_retention bigint, p_ids text[], p_after bigint[], p_due bigint[]
) RETURNS TABLE (o_n int, o_outcome smallint, o_state smallint, o_due bigint)
PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_us bigint := clock_us();
    v_now bigint := v_us / 1000;
    v_type int;
    v_at bigint;
    v_submitted bigint;
    v_one record;
BEGIN
    SELECT id INTO v_type FROM types WHERE namespace = p_namespace AND name = p_name;
    FOR v_one IN
        SELECT u.n, u.id, CASE
            WHEN u.after IS NULL THEN greatest(u.due, v_now)
            WHEN u.after = 0 THEN v_now
            ELSE least((v_us + 999) / 1000 + u.after, 253402207199999)
        END AS due
        FROM unnest(p_ids, p_after, p_due) WITH ORDINALITY AS u(id, after, due, n)
        ORDER BY u.id, u.n
    LOOP
        o_n := v_one.n;
        o_due := NULL;
        SELECT state, at, submitted INTO o_state, v_at, v_submitted FROM tasks
            WHERE type = v_type AND id = v_one.id FOR UPDATE;
        IF NOT FOUND OR o_state > 2 AND v_at + p_retention <= v_now THEN
            o_outcome := 3;
        ELSIF o_state = 0 THEN
            o_outcome := 0;
            -- The submit time of a task with a delay is rounded up.
            o_due := greatest(v_one.due, v_submitted);
            UPDATE tasks SET at = o_due, due = o_due, delay = NULL
                WHERE type = v_type AND id = v_one.id;
        ELSE
            o_outcome := o_state;
            o_outcome := least(o_outcome, 2);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Replaces messages; headers, expiry and due time stay. Outcomes as of reschedule_v1.
CREATE FUNCTION update_v1(
    p_namespace text, p_name text, p_retention bigint, p_ids text[], p_message bytea[]
) RETURNS TABLE (o_n int, o_outcome smallint, o_state smallint, o_due bigint)
PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := clock_us() / 1000;
    v_type int;
    v_at bigint;
    v_one record;
BEGIN
    SELECT id INTO v_type FROM types WHERE namespace = p_namespace AND name = p_name;
    FOR v_one IN
        SELECT u.n, u.id, u.message
        FROM unnest(p_ids, p_message) WITH ORDINALITY AS u(id, message, n) ORDER BY u.id, u.n
    LOOP
        o_n := v_one.n;
        o_due := NULL;
        SELECT state, at INTO o_state, v_at FROM tasks
            WHERE type = v_type AND id = v_one.id FOR UPDATE;
        IF NOT FOUND OR o_state > 2 AND v_at + p_retention <= v_now THEN
            o_outcome := 3;
        ELSIF o_state = 0 THEN
            o_outcome := 0;
            o_due := v_at;
            UPDATE tasks t SET message = v_one.message,
                    checksum = checksum_v1(v_one.message, t.headers, t.expires_at, t.expires_after)
                WHERE t.type = v_type AND t.id = v_one.id;
        ELSE
            o_outcome := least(o_state, 2::smallint);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
