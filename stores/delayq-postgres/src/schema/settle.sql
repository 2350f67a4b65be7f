-- Ends of attempts, extensions, and the writes of what the store has decided. EMPTIED stands for
-- the columns that the record of an ended task does not keep.

-- Ends running tasks that nothing follows as done. Answers their ids. p_keep: the bytes of a message
-- that the record of an end keeps; NULL: ends are not recorded.
CREATE FUNCTION end_done_v2(p_type int, p_ids text[], p_fences bigint[], p_now bigint,
    p_namespace text, p_keep bigint) RETURNS text[] PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[];
    v_done int;
    v_tids tid[];
BEGIN
    IF p_keep IS NOT NULL THEN
        -- Those that are locked here are recorded, and only those end.
        SELECT array_agg(d.tid), array_agg(d.id), array_agg(d.fence) INTO v_tids, p_ids, p_fences
            FROM (
                SELECT t.ctid AS tid, t.id, t.fence FROM unnest(p_ids, p_fences) AS s(id, fence)
                    JOIN tasks t ON t.type = p_type AND t.id = s.id AND t.fence = s.fence
                        AND t.flags & 4 = 0
                    ORDER BY t.id FOR UPDATE OF t
            ) d;
        PERFORM record_ends_v1(p_namespace, p_keep, v_tids, 0, p_now);
    END IF;
    WITH done AS (
        UPDATE tasks t SET state = 3, at = p_now, settled = t.fence, settled_by = 1,
            failures = coalesce(t.failures, 0) + coalesce(t.lock_expiries, 0) + 1, EMPTIED
        FROM (SELECT * FROM unnest(p_ids, p_fences) AS u(id, fence) ORDER BY u.id) s
        WHERE t.type = p_type AND t.id = s.id AND t.fence = s.fence AND t.flags & 4 = 0
        RETURNING t.id
    )
    SELECT coalesce(array_agg(id), '{}'), count(*) INTO v_ids, v_done FROM done;
    IF v_done > 0 THEN
        INSERT INTO ledger (type, running, ended, done) VALUES (p_type, -v_done, v_done, v_done);
    END IF;
    RETURN v_ids;
END $$;

-- The usual end: tasks that are done, and that nothing follows. Answers their ids; the store
-- decides about the others. o_is_freed: tasks of the type wait for a slot. Fails if another
-- transaction keeps one of them locked.
CREATE FUNCTION done_v1(p_namespace text, p_name text, p_ids text[], p_fences bigint[])
RETURNS TABLE (o_ids text[], o_is_freed boolean) PINNED SET lock_timeout = '50ms'
LANGUAGE plpgsql AS $$
DECLARE
    v_type int;
    v_is_limited boolean;
    v_keep bigint;
BEGIN
    o_is_freed := false;
    SELECT id, is_limited, history INTO v_type, v_is_limited, v_keep FROM types
        WHERE namespace = p_namespace AND name = p_name;
    IF v_is_limited THEN
        SELECT is_held_back INTO o_is_freed FROM types WHERE id = v_type FOR UPDATE;
    END IF;
    o_ids := end_done_v2(v_type, p_ids, p_fences, clock_us() / 1000, p_namespace, v_keep);
    o_is_freed := o_is_freed AND cardinality(o_ids) > 0;
    IF o_is_freed THEN
        UPDATE types SET is_held_back = false WHERE id = v_type;
    END IF;
    RETURN NEXT;
END $$;

-- Moves the ends of locks. p_alone: 2 marks a lock as that of a holder that runs nothing else. A
-- task that another transaction has locked keeps the end that it has, so that one long transaction
-- does not hold up the others.
CREATE FUNCTION extend_v1(
    p_namespace text, p_name text, p_ids text[], p_fences bigint[], p_lock_ms bigint, p_alone int
) RETURNS TABLE (o_id text, o_fence bigint, o_until bigint, o_is_cancelled boolean)
PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_until bigint := least(clock_us() / 1000 + p_lock_ms, 253402207199999);
    v_type int;
BEGIN
    SELECT y.id INTO v_type FROM types y WHERE y.namespace = p_namespace AND y.name = p_name;
    RETURN QUERY
        WITH held AS MATERIALIZED (
            SELECT t.ctid AS tid FROM unnest(p_ids, p_fences) AS s(id, fence)
                JOIN tasks t ON t.type = v_type AND t.id = s.id AND t.fence = s.fence
            ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
        ), extended AS (
            UPDATE tasks t SET at = v_until, flags = (t.flags & ~2) | p_alone
            FROM held WHERE t.ctid = held.tid
            RETURNING t.id, t.fence, t.at, t.flags
        )
        SELECT t.id, t.fence, coalesce(e.at, t.at), coalesce(e.flags, t.flags) & 1 <> 0
        FROM unnest(p_ids, p_fences) AS s(id, fence)
            JOIN tasks t ON t.type = v_type AND t.id = s.id AND t.fence = s.fence
            LEFT JOIN extended e ON e.id = t.id;
END $$;

-- Writes the bookkeeping of tasks that the caller has locked. An ended one is emptied.
CREATE FUNCTION write_v1(
    p_type int, p_ids text[], p_state smallint[], p_flags smallint[], p_at bigint[],
    p_due bigint[], p_delay bigint[], p_fence bigint[], p_settled bigint[], p_settled_by smallint[],
    p_failures int[], p_lock_expiries int[], p_releases int[], p_requeues int[], p_holder text[],
    p_succeeded text[], p_errors text[], p_last_error bytea[], p_note bytea[]
) RETURNS void PINNED LANGUAGE sql AS $$
    UPDATE tasks t SET state = w.state, flags = w.flags, at = w.at, due = w.due, delay = w.delay,
        fence = w.fence, settled = w.settled, settled_by = w.settled_by,
        failures = nullif(w.failures, 0), lock_expiries = nullif(w.lock_expiries, 0),
        releases = nullif(w.releases, 0), requeues = nullif(w.requeues, 0), holder = w.holder,
        succeeded = w.succeeded, errors = w.errors, last_error = w.last_error, note = w.note,
        submitted = CASE WHEN w.state < 3 THEN t.submitted END,
        expires_at = CASE WHEN w.state < 3 THEN t.expires_at END,
        expires_after = CASE WHEN w.state < 3 THEN t.expires_after END,
        headers = CASE WHEN w.state < 3 THEN t.headers END,
        message = CASE WHEN w.state < 3 THEN t.message END
    FROM unnest(p_ids, p_state, p_flags, p_at, p_due, p_delay, p_fence, p_settled, p_settled_by,
            p_failures, p_lock_expiries, p_releases, p_requeues, p_holder, p_succeeded, p_errors,
            p_last_error, p_note)
        AS w(id, state, flags, at, due, delay, fence, settled, settled_by, failures, lock_expiries,
            releases, requeues, holder, succeeded, errors, last_error, note)
    WHERE t.type = p_type AND t.id = w.id
$$;

-- Replaces tasks by the requests that wait for their ends. Answers the due times.
CREATE FUNCTION follow_v1(
    p_type int, p_ids text[], p_settled bigint[], p_settled_by smallint[], p_now bigint
) RETURNS SETOF bigint PINNED LANGUAGE sql AS $$
    UPDATE tasks t SET state = 0, flags = 0, at = greatest(f.at, p_now), due = f.at,
        delay = f.delay, submitted = f.submitted, expires_at = f.expires_at,
        expires_after = f.expires_after, checksum = f.checksum, fence = NULL, settled = s.settled,
        settled_by = s.settled_by, failures = NULL, lock_expiries = NULL, releases = NULL,
        requeues = NULL, holder = NULL, succeeded = NULL, errors = NULL, last_error = NULL,
        note = NULL, headers = f.headers, message = f.message
    FROM unnest(p_ids, p_settled, p_settled_by) AS s(id, settled, settled_by), follow_ups f
    WHERE f.type = p_type AND f.id = s.id AND t.type = p_type AND t.id = s.id
    RETURNING t.at;
    DELETE FROM follow_ups WHERE type = p_type AND id = ANY (p_ids);
    SELECT t.at FROM tasks t WHERE t.type = p_type AND t.id = ANY (p_ids) AND t.state = 0;
$$;
