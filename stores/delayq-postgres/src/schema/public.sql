-- The functions for applications, which call them in their own transactions. Their names and
-- parameters never change: what is added becomes an option. A refusal of the task is a row, so that
-- it does not end the caller's transaction.

CREATE FUNCTION state_name_v1(p_state int) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT (ARRAY['scheduled', 'running', 'dead', 'done', 'cancelled', 'expired'])[p_state + 1]
$$;

CREATE FUNCTION retention_v1(p_namespace text) RETURNS bigint STABLE LANGUAGE sql AS $$
    SELECT coalesce((SELECT n.retention FROM namespaces n WHERE n.name = p_namespace), 600000)
$$;

-- Whether the tasks of a namespace are in another store. That does not change before the caller's
-- transaction has ended.
CREATE FUNCTION is_relayed_v1(p_namespace text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared('namespaces'::regclass::oid::int, hashtext(p_namespace));
    RETURN coalesce((SELECT n.is_relayed FROM namespaces n WHERE n.name = p_namespace), false);
END $$;

-- The lane of a task in the outbox: all calls for a task are in one.
CREATE FUNCTION lane_v1(p_type text, p_id text) RETURNS smallint IMMUTABLE LANGUAGE sql AS $$
    SELECT get_byte(sha256(convert_to(p_type || ' ' || p_id, 'UTF8')), 0) & 7
$$;

-- Puts the tasks of a namespace into the outbox. The answer is that of a new task.
CREATE FUNCTION enqueue_v1(p_namespace text, p_requests request_v1[])
RETURNS TABLE (o_n int, o_outcome text, o_due bigint, o_state text, o_detail jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    v_us bigint := clock_us();
    v_task request_v1;
BEGIN
    FOR v_n IN 1 .. cardinality(p_requests) LOOP
        v_task := p_requests[v_n];
        CONTINUE WHEN v_task.namespace <> p_namespace;
        o_n := v_n;
        o_outcome := 'accepted';
        o_detail := '{"relayed": true}';
        o_due := CASE
            WHEN v_task.delay > 0 THEN least((v_us + 999) / 1000 + v_task.delay, 253402207199999)
            ELSE greatest(v_task.due, v_us / 1000) END;
        INSERT INTO outbox (at, due, delay, expires_at, expires_after, max_wait, lane, call, conflict,
                again, namespace, type, id, headers, message)
            VALUES (v_us / 1000, o_due, v_task.delay, v_task.expires_at, v_task.expires_after,
                v_task.max_wait, lane_v1(v_task.type, v_task.id), 0, v_task.conflict, v_task.again,
                p_namespace, v_task.type, v_task.id, v_task.headers, v_task.message);
        RETURN NEXT;
    END LOOP;
END $$;

-- Puts a change of a task into the outbox.
CREATE FUNCTION enqueue_change_v1(p_call int, p_namespace text, p_type text, p_id text, p_due bigint,
    p_message bytea) RETURNS void LANGUAGE sql AS $$
    INSERT INTO outbox (at, due, lane, call, namespace, type, id, message)
        VALUES (clock_us() / 1000, p_due, lane_v1(p_type, p_id), p_call, p_namespace, p_type, p_id,
            p_message)
$$;

-- Submits tasks of any namespaces. max_pending may be exceeded by what is not committed: no lock of
-- the type is held until the caller's transaction ends.
CREATE FUNCTION send_v1(p_requests request_v1[])
RETURNS TABLE (o_n int, o_outcome text, o_due bigint, o_state text, o_detail jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace text;
    v_names text[];
    v_places bigint[];
    v_tasks request_v1[];
    v_task request_v1;
    v_one record;
BEGIN
    FOR v_namespace IN SELECT DISTINCT r.namespace COLLATE "C" FROM unnest(p_requests) r ORDER BY 1 LOOP
        IF is_relayed_v1(v_namespace) THEN
            RETURN QUERY SELECT * FROM enqueue_v1(v_namespace, p_requests);
            CONTINUE;
        END IF;
        SELECT array_agg(r.n ORDER BY r.n), array_agg(ROW(r.namespace, r.type, r.id, r.message, r.headers,
                r.delay, r.due, r.expires_at, r.expires_after, r.conflict, r.max_wait, r.again,
                r.notify)::request_v1 ORDER BY r.n)
            INTO v_places, v_tasks
            FROM unnest(p_requests) WITH ORDINALITY AS r(namespace, type, id, message, headers, delay,
                due, expires_at, expires_after, conflict, max_wait, again, notify, n)
            WHERE r.namespace = v_namespace;
        SELECT array_agg(DISTINCT r.type COLLATE "C" ORDER BY r.type COLLATE "C")
            INTO v_names FROM unnest(v_tasks) r;
        FOR v_one IN
            SELECT s.* FROM submit_v1(
                v_namespace, retention_v1(v_namespace), false, v_names,
                ARRAY(SELECT array_position(v_names, r.type) FROM unnest(v_tasks) r),
                ARRAY(SELECT r.id FROM unnest(v_tasks) r),
                ARRAY(SELECT r.delay FROM unnest(v_tasks) r),
                ARRAY(SELECT r.delay FROM unnest(v_tasks) r),
                ARRAY(SELECT r.due FROM unnest(v_tasks) r),
                ARRAY(SELECT r.expires_at FROM unnest(v_tasks) r),
                ARRAY(SELECT r.expires_after FROM unnest(v_tasks) r),
                ARRAY(SELECT r.conflict FROM unnest(v_tasks) r),
                ARRAY(SELECT r.max_wait FROM unnest(v_tasks) r),
                ARRAY(SELECT r.again FROM unnest(v_tasks) r),
                ARRAY(SELECT checksum_v1(r.message, r.headers, r.expires_at, r.expires_after)
                    FROM unnest(v_tasks) r),
                ARRAY(SELECT r.headers FROM unnest(v_tasks) r),
                ARRAY(SELECT r.message FROM unnest(v_tasks) r)
            ) s
        LOOP
            o_n := v_places[v_one.o_n];
            o_outcome := (ARRAY['accepted', 'replaced', 'runs_again', 'exists', 'conflict', 'full'])
                [v_one.o_outcome + 1];
            o_due := CASE WHEN v_one.o_outcome < 3 THEN v_one.o_due END;
            o_state := CASE WHEN v_one.o_outcome IN (3, 4) THEN state_name_v1(v_one.o_state) END;
            o_detail := CASE WHEN v_one.o_outcome = 5
                THEN jsonb_build_object('pending', v_one.o_due, 'max_pending', v_one.o_most)
                ELSE '{}' END;
            v_task := v_tasks[v_one.o_n];
            -- What is due later is found in time without it.
            IF v_task.notify AND o_due <= clock_us() / 1000 + 1000 THEN
                PERFORM pg_notify('delayq_' || current_schema(), v_namespace || ' sql ' || v_task.type);
            END IF;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;

CREATE FUNCTION at_v1(p_ms bigint) RETURNS timestamptz IMMUTABLE LANGUAGE sql AS $$
    SELECT to_timestamp(p_ms / 1000.0)
$$;

-- Sends a task. outcome: accepted, replaced, runs_again, exists, conflict, full.
CREATE FUNCTION send(type text, id text, message bytea, options jsonb DEFAULT '{}')
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE sql AS $$
    SELECT s.o_outcome, at_v1(s.o_due), s.o_state, s.o_detail
    FROM send_v1(ARRAY[request_v1('send', $1, $2, $3, $4)]) s
$$;

-- The same with a text, as its bytes in UTF-8.
CREATE FUNCTION send(type text, id text, message text, options jsonb DEFAULT '{}')
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE sql AS $$
    SELECT s.o_outcome, at_v1(s.o_due), s.o_state, s.o_detail
    FROM send_v1(ARRAY[request_v1('send', $1, $2, convert_to($3, 'UTF8'), $4)]) s
$$;

-- The same with JSON.
CREATE FUNCTION send(type text, id text, message jsonb, options jsonb DEFAULT '{}')
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE sql AS $$
    SELECT s.o_outcome, at_v1(s.o_due), s.o_state, s.o_detail
    FROM send_v1(ARRAY[request_v1('send', $1, $2, convert_to($3::text, 'UTF8'), $4)]) s
$$;

-- The message of a task in JSON: a text is the message itself, another value its JSON.
CREATE FUNCTION message_v1(p_call text, p_task jsonb) RETURNS bytea
IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF p_task ? 'message_base64' THEN
        RETURN decode(p_task ->> 'message_base64', 'base64');
    END IF;
    IF jsonb_typeof(p_task -> 'message') = 'string' THEN
        RETURN convert_to(p_task ->> 'message', 'UTF8');
    END IF;
    RETURN convert_to((p_task -> 'message')::text, 'UTF8');
EXCEPTION WHEN data_exception THEN
    PERFORM refuse_v1(p_call, 'message_base64', p_task -> 'message_base64', 'give base64');
END $$;

-- The requests of tasks in a JSON array. Besides type, id and message, a task has the options of
-- send.
CREATE FUNCTION requests_v1(p_call text, p_tasks jsonb) RETURNS request_v1[]
STABLE LANGUAGE plpgsql AS $$
DECLARE
    v_task jsonb;
BEGIN
    IF jsonb_typeof(p_tasks) IS DISTINCT FROM 'array' OR jsonb_array_length(p_tasks) > 10000 THEN
        RAISE EXCEPTION 'delayq.%: the tasks are no JSON array, or more than 10000', p_call
            USING ERRCODE = 'DQ002',
                HINT = 'write them as ''[{"type": "order.cancel", "id": "order-42", "message": {}}]''';
    END IF;
    SELECT t INTO v_task FROM jsonb_array_elements(p_tasks) t WHERE jsonb_typeof(t) <> 'object' LIMIT 1;
    IF FOUND THEN
        PERFORM refuse_v1(p_call, 'tasks', v_task, 'each task is a JSON object');
    END IF;
    RETURN ARRAY(
        SELECT request_v1(p_call, u.t ->> 'type', u.t ->> 'id', message_v1(p_call, u.t),
            u.t - ARRAY['type', 'id', 'message', 'message_base64'])
        FROM jsonb_array_elements(p_tasks) WITH ORDINALITY AS u(t, n) ORDER BY u.n);
END $$;

-- Sends many tasks; one row for each, in order.
CREATE FUNCTION send_all(tasks jsonb)
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE sql AS $$
    SELECT s.o_outcome, at_v1(s.o_due), s.o_state, s.o_detail
    FROM send_v1(requests_v1('send_all', coalesce($1, '[]'))) s ORDER BY s.o_n
$$;

-- Cancels a task. outcome: cancelled, running (it is asked to stop), finished, not_found; relayed,
-- if the call waits in the outbox.
CREATE FUNCTION cancel(type text, id text, options jsonb DEFAULT '{}')
RETURNS TABLE (outcome text, state text, detail jsonb) SECURITY DEFINER PINNED LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_options jsonb := options_v1('cancel', options, ARRAY['namespace']);
    v_namespace text := namespace_v1('cancel', type, ARRAY[id], v_options);
BEGIN
    IF is_relayed_v1(v_namespace) THEN
        PERFORM enqueue_change_v1(1, v_namespace, type, id, NULL, NULL);
        RETURN QUERY SELECT 'relayed', NULL, '{"relayed": true}'::jsonb;
        RETURN;
    END IF;
    RETURN QUERY SELECT (ARRAY['cancelled', 'running', 'finished', 'not_found'])[c.o_outcome + 1],
        CASE WHEN c.o_outcome IN (1, 2) THEN state_name_v1(c.o_state) END, '{}'::jsonb
        FROM cancel_v1(v_namespace, type, retention_v1(v_namespace), ARRAY[id]) c;
END $$;

-- Moves a scheduled task to another time. outcome: changed, running, finished, not_found.
CREATE FUNCTION reschedule(type text, id text, options jsonb)
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_options jsonb := options_v1('reschedule', options,
        ARRAY['delay', 'delay_ms', 'at', 'at_ms', 'namespace']);
    v_request request_v1 := request_v1('reschedule', type, id, '', v_options);
BEGIN
    IF NOT v_options ?| ARRAY['delay', 'delay_ms', 'at', 'at_ms'] THEN
        PERFORM refuse_v1('reschedule', 'delay', 'null', 'give a delay or a time; 0 ms is now');
    END IF;
    IF is_relayed_v1(v_request.namespace) THEN
        due_at := at_v1(coalesce(v_request.due, (clock_us() + 999) / 1000 + v_request.delay));
        PERFORM enqueue_change_v1(2, v_request.namespace, type, id,
            (extract(epoch FROM due_at) * 1000)::bigint, NULL);
        RETURN QUERY SELECT 'relayed', due_at, NULL::text, '{"relayed": true}'::jsonb;
        RETURN;
    END IF;
    RETURN QUERY SELECT (ARRAY['changed', 'running', 'finished', 'not_found'])[c.o_outcome + 1],
        at_v1(c.o_due), CASE WHEN c.o_outcome IN (1, 2) THEN state_name_v1(c.o_state) END, '{}'::jsonb
        FROM reschedule_v1(v_request.namespace, type, retention_v1(v_request.namespace),
            ARRAY[id], ARRAY[v_request.delay], ARRAY[v_request.due]) c;
END $$;

CREATE FUNCTION change_message_v1(p_type text, p_id text, p_message bytea, p_options jsonb)
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    v_options jsonb := options_v1('update', p_options, ARRAY['namespace']);
    v_namespace text := namespace_v1('update', p_type, ARRAY[p_id], v_options);
BEGIN
    PERFORM check_message_v1('update', p_message);
    IF is_relayed_v1(v_namespace) THEN
        PERFORM enqueue_change_v1(3, v_namespace, p_type, p_id, NULL, p_message);
        RETURN QUERY SELECT 'relayed', NULL::timestamptz, NULL::text, '{"relayed": true}'::jsonb;
        RETURN;
    END IF;
    RETURN QUERY SELECT (ARRAY['changed', 'running', 'finished', 'not_found'])[c.o_outcome + 1],
        at_v1(c.o_due), CASE WHEN c.o_outcome IN (1, 2) THEN state_name_v1(c.o_state) END, '{}'::jsonb
        FROM update_v1(v_namespace, p_type, retention_v1(v_namespace), ARRAY[p_id],
            ARRAY[p_message]) c;
END $$;

-- Replaces the message of a scheduled task. outcome: changed, running, finished, not_found.
CREATE FUNCTION update(type text, id text, message bytea, options jsonb DEFAULT '{}')
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE sql AS $$
    SELECT * FROM change_message_v1($1, $2, $3, $4)
$$;

CREATE FUNCTION update(type text, id text, message text, options jsonb DEFAULT '{}')
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE sql AS $$
    SELECT * FROM change_message_v1($1, $2, convert_to($3, 'UTF8'), $4)
$$;

CREATE FUNCTION update(type text, id text, message jsonb, options jsonb DEFAULT '{}')
RETURNS TABLE (outcome text, due_at timestamptz, state text, detail jsonb)
SECURITY DEFINER PINNED LANGUAGE sql AS $$
    SELECT * FROM change_message_v1($1, $2, convert_to($3::text, 'UTF8'), $4)
$$;

-- A task as JSON; NULL if it is not known. at: by state, when it is due, its lock expires, it died
-- or ended. Times are ms since the epoch.
CREATE FUNCTION find(type text, id text, options jsonb DEFAULT '{}') RETURNS jsonb
SECURITY DEFINER PINNED STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_options jsonb := options_v1('find', options, ARRAY['namespace']);
    v_namespace text := namespace_v1('find', type, ARRAY[id], v_options);
    v_task tasks;
    v_message jsonb;
BEGIN
    IF EXISTS (SELECT 1 FROM namespaces n WHERE n.name = v_namespace AND n.is_relayed) THEN
        RAISE EXCEPTION 'delayq.find: the tasks of the namespace % are in another store', v_namespace
            USING ERRCODE = 'DQ005', HINT = 'ask the store that its relay sends to';
    END IF;
    SELECT t.* INTO v_task FROM types y JOIN tasks t ON t.type = y.id
        WHERE y.namespace = v_namespace AND y.name = type AND t.id = id;
    IF NOT FOUND OR v_task.state > 2 AND v_task.at + retention_v1(v_namespace) <= clock_us() / 1000 THEN
        RETURN NULL;
    END IF;
    IF v_task.message IS NOT NULL THEN
        BEGIN
            v_message := jsonb_build_object('message', convert_from(v_task.message, 'UTF8'));
        EXCEPTION WHEN data_exception THEN
            v_message := jsonb_build_object('message_base64',
                translate(encode(v_task.message, 'base64'), E'\n', ''));
        END;
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'type', type, 'id', id, 'state', state_name_v1(v_task.state), 'at', v_task.at,
        'due_at', CASE WHEN v_task.state < 3 THEN v_task.due END,
        'submitted_at', v_task.submitted,
        'expires_at', coalesce(v_task.expires_at, v_task.due + v_task.expires_after),
        'attempt', coalesce(v_task.failures, 0) + coalesce(v_task.lock_expiries, 0)
            + CASE WHEN v_task.state = 1 THEN 1 ELSE 0 END,
        'cancel_requested', v_task.flags & 1 <> 0,
        'last_error', CASE WHEN position('\x00'::bytea IN v_task.last_error) = 0
            THEN convert_from(v_task.last_error, 'UTF8') END,
        'headers', v_task.headers::jsonb
    )) || coalesce(v_message, '{}');
END $$;

-- The release that made the schema, and what the functions know.
CREATE FUNCTION version() RETURNS text SECURITY DEFINER PINNED STABLE LANGUAGE sql AS $$
    SELECT 'schema ' || m.version FROM meta m
$$;
