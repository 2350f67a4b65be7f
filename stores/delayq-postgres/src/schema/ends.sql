-- Records of tasks that end, for a history.

-- Records the ends of tasks that have not changed yet, and that the caller has locked.
CREATE FUNCTION record_ends_v1(
    p_namespace text, p_keep bigint, p_tids tid[], p_outcome int, p_now bigint
) RETURNS void PINNED LANGUAGE sql AS $$
    WITH added AS (INSERT INTO ends (namespace, type, id, outcome, submitted, due, ended, fence, is_running,
            attempts, headers, holder, error, errors, size, message, bytes)
    SELECT p_namespace, x.type, x.id, p_outcome, x.submitted, coalesce(x.due, x.at), p_now,
        greatest(x.fence, x.settled, 0), x.state = 1,
        coalesce(x.failures, 0) + coalesce(x.lock_expiries, 0) + (x.state = 1)::int, x.headers,
        x.holder, x.last_error, x.errors, coalesce(octet_length(x.message), 0), x.kept,
        64 + octet_length(x.id) + coalesce(octet_length(x.headers), 0)
        + coalesce(octet_length(x.holder), 0)
        + coalesce(octet_length(x.last_error), 0) + coalesce(octet_length(x.errors), 0)
        + coalesce(octet_length(x.kept), 0)
    FROM (
        SELECT t.*,
            CASE WHEN p_keep > 0
                THEN substring(t.message FROM 1 FOR least(p_keep, 1 << 30)::int) END AS kept
        FROM tasks t WHERE t.ctid = ANY (p_tids)
    ) x RETURNING ends.bytes)
    INSERT INTO ends_ledger (namespace, waiting, bytes)
        SELECT p_namespace, count(*), sum(bytes) FROM added HAVING count(*) > 0
$$;

-- The first records of a namespace from a number on, up to about 8 MiB.
CREATE FUNCTION ends_v1(p_namespace text, p_limit int, p_from bigint)
RETURNS TABLE (o_seq bigint, o_type text, o_end ends) PINNED LANGUAGE sql AS $$
    SELECT e.seq, y.name, e FROM ends e JOIN types y ON y.id = e.type
    WHERE e.namespace = p_namespace AND e.seq >= p_from AND e.seq <= (
        SELECT max(x.seq) FROM (
            SELECT f.seq, f.bytes, sum(f.bytes) OVER (ORDER BY f.seq) AS upto FROM (
                SELECT seq, bytes FROM ends WHERE namespace = p_namespace AND seq >= p_from
                ORDER BY seq LIMIT p_limit
            ) f
        ) x WHERE x.upto - x.bytes < 8388608
    ) ORDER BY e.seq
$$;

-- Removes records. Answers their number.
CREATE FUNCTION remove_ends_v1(p_namespace text, p_seqs bigint[]) RETURNS bigint
PINNED LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM ends WHERE namespace = p_namespace AND seq = ANY (p_seqs) RETURNING bytes
    ), noted AS (
        INSERT INTO ends_ledger (namespace, waiting, bytes)
            SELECT p_namespace, -count(*), -sum(bytes) FROM gone HAVING count(*) > 0
    )
    SELECT count(*) FROM gone
$$;

-- What waits, what was dropped so far, and the bound. p_from: no earlier record waits.
CREATE FUNCTION ends_status_v1(p_namespace text, p_from bigint)
RETURNS TABLE (o_waiting bigint, o_bytes bigint, o_lost bigint, o_most bigint, o_oldest bigint)
PINNED LANGUAGE sql AS $$
    SELECT coalesce(s.waiting, 0) + l.waiting, coalesce(s.bytes, 0) + l.bytes,
        coalesce(s.lost, 0) + l.lost, s.most,
        (SELECT e.ended FROM ends e WHERE e.namespace = p_namespace AND e.seq >= p_from
            ORDER BY e.seq LIMIT 1)
    FROM (
        SELECT coalesce(sum(waiting), 0)::bigint AS waiting, coalesce(sum(bytes), 0)::bigint AS bytes,
            coalesce(sum(lost), 0)::bigint AS lost
        FROM ends_ledger WHERE namespace = p_namespace
    ) l LEFT JOIN ends_state s ON s.namespace = p_namespace
$$;

-- Adds the changes of the ledger to the state, and drops up to p_step of the oldest records beyond
-- the bound, which is p_most unless another one is stored. Answers the number of those dropped, or
-- p_step if the ledger is longer than one step takes: what was removed may still be in it, so
-- nothing is dropped then.
CREATE FUNCTION trim_ends_v1(p_namespace text, p_most bigint, p_step int) RETURNS bigint
PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_taken bigint;
    v_beyond bigint;
    v_dropped bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock('ends'::regclass::oid::int, hashtext(p_namespace)) THEN
        RETURN 0;
    END IF;
    WITH taken AS (
        DELETE FROM ends_ledger WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM ends_ledger WHERE namespace = p_namespace LIMIT 20000))
        RETURNING waiting, bytes, lost
    ), merged AS (
        INSERT INTO ends_state AS s (namespace, waiting, bytes, lost)
            SELECT p_namespace, sum(waiting), sum(bytes), sum(lost) FROM taken HAVING count(*) > 0
            ON CONFLICT (namespace) DO UPDATE SET waiting = s.waiting + excluded.waiting,
                bytes = s.bytes + excluded.bytes, lost = s.lost + excluded.lost
    )
    SELECT count(*) INTO v_taken FROM taken;
    IF v_taken = 20000 THEN
        RETURN p_step;
    END IF;
    SELECT s.bytes - coalesce(s.most, p_most) INTO v_beyond
        FROM ends_state s WHERE s.namespace = p_namespace;
    IF v_beyond IS NULL OR v_beyond <= 0 THEN
        RETURN 0;
    END IF;
    WITH oldest AS MATERIALIZED (
        SELECT x.seq FROM (
            SELECT f.seq, sum(f.bytes) OVER (ORDER BY f.seq) - f.bytes AS before FROM (
                SELECT seq, bytes FROM ends WHERE namespace = p_namespace ORDER BY seq LIMIT p_step
            ) f
        ) x WHERE x.before < v_beyond
    ), gone AS (
        DELETE FROM ends e USING oldest o WHERE e.namespace = p_namespace AND e.seq = o.seq
        RETURNING e.bytes
    ), noted AS (
        INSERT INTO ends_ledger (namespace, waiting, bytes, lost)
            SELECT p_namespace, -count(*), -sum(bytes), count(*) FROM gone HAVING count(*) > 0
    )
    SELECT count(*) INTO v_dropped FROM gone;
    IF v_dropped = 0 AND NOT EXISTS (SELECT 1 FROM ends WHERE namespace = p_namespace) THEN
        -- Somebody has removed records by hand. What the ledger has is not counted yet.
        UPDATE ends_state SET waiting = 0, bytes = 0 WHERE namespace = p_namespace
            AND NOT EXISTS (SELECT 1 FROM ends_ledger WHERE namespace = p_namespace);
    END IF;
    RETURN v_dropped;
END $$;
