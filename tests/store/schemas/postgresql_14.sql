SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE DOMAIN public.lading_json AS text COLLATE pg_catalog."C"
	CONSTRAINT lading_json_check CHECK (((VALUE IS NULL) OR
CASE
    WHEN (strpos(VALUE, '\u'::text) = 0) THEN ((VALUE)::json IS NOT NULL)
    ELSE ((VALUE)::jsonb IS NOT NULL)
END));
CREATE FUNCTION public.lading_each(document text) RETURNS TABLE(key text, fullkey text, type text, value text, number numeric)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT one.key, one.fullkey,
        CASE json_typeof(one.item)
            WHEN 'string' THEN 'text'
            WHEN 'number' THEN 'real'
            WHEN 'boolean' THEN one.item::text
            ELSE json_typeof(one.item)
        END,
        one.item #>> '{}',
        CASE json_typeof(one.item) WHEN 'number' THEN (one.item #>> '{}')::numeric END
    FROM (
        SELECT o.key, '$.' || o.key AS fullkey, o.value AS item
        FROM json_each(CASE json_typeof(document::json) WHEN 'object' THEN document::json END) o
        UNION ALL
        SELECT NULL, '$[' || (a.position - 1) || ']', a.value
        FROM json_array_elements(
            CASE json_typeof(document::json) WHEN 'array' THEN document::json END)
            WITH ORDINALITY AS a(value, position)
    ) one
$_$;
CREATE FUNCTION public.lading_log_properties(properties text, shortened text, object_uuid text, object_owner_uuid text, owner_uuid text, created_at text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN shortened IS NULL THEN properties ELSE replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(shortened, '0', '{"new_etag":"'), '1', '","new_attributes":{"uuid":"","owner_uuid":"","created_at":"","modified_at":"","modified_by_user_uuid":"'), '2', '{"old_etag":"'), '3', '","old_attributes":{"owner_uuid":"","modified_at":"'), '4', '"},"new_etag":"'), '5', '},"new_etag":"'), '6', '","new_attributes":{"owner_uuid":"","modified_at":"'), '7', '","modified_by_user_uuid":"'), '8', 'tpzed-000000000000000","'), '9', '","old_attributes":{"uuid":"","owner_uuid":"","created_at":"'), 'A', ',"output_glob":[],"strict_output":false,"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"steps":[],"'), 'B', ',"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"'), 'C', '"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}'), 'D', '","container_image":"'), 'E', '","cwd":"'), 'F', '","environment":{},"mounts":{"'), 'G', '{"capacity":1048576,"kind":"tmp"}},"runtime_constraints":{"API":false,'), 'H', '{"kind":"tmp","capacity":1048576}},"runtime_constraints":{"API":false,'), 'I', '},"runtime_constraints":{"API":false,'), 'J', '"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":'), 'K', '"keep_cache_disk":0,"keep_cache_ram":0,"ram":'), 'L', '"description":null,"properties":{'), 'M', '000Z","'), 'N', '","name":"'), 'O', '"],"container_image":"'), '0', 'state":"Queued","command":["'), '1', 'constraint_ranges":{},"priority":'), '2', ',"runtime_user_uuid":"'), '3', '","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"usage":{},"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false,"traceparent":null,"withdrawn_at":null,"withdrawn_by_uuid":null,"withdrawn_reason":null}}'), '4', 'state":"Queued","locked_by_uuid":null,"auth_uuid":null,"lock_count":0'), '5', 'state":"Locked","locked_by_uuid":"gj3su-'), '6', '","auth_uuid":"gj3su-'), '7', '","lock_count":1}}'), '8', 'state":"Locked","started_at":null'), '9', 'state":"Running","started_at":"'), 'A', 'state":"Running","locked_by_uuid":"gj3su-'), 'B', '","log":null,"output":null,"exit_code":null,"usage":{},"finished_at":null'), 'C', 'state":"Complete","locked_by_uuid":null,"auth_uuid":null,"log":"'), 'D', '","output":"'), 'E', '","exit_code":'), 'F', ',"usage":{'), 'G', '},"finished_at":"'), 'H', 'state":"Queued'), 'I', 'state":"Cancelled'), 'J', 'runtime_status":{'), '0', '},"state":"Committed","requesting_container_uuid":'), '1', ',"container_uuid":"dz642-'), '2', '","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["'), '3', 'output_name":'), '4', ',"output_ttl":0,"priority":'), '5', ',"use_existing":'), '6', ',"match_resources":false,"only_reproduced":false,"expires_at":null,"filters":null,"parallel_group":null,"max_parallel":0,"depends_on":[],"start_after":null,"retry_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":'), '7', ',"committed_by_uuid":"","secrets_needed":[]}}'), '8', '","state":"Committed","requesting_container_uuid":null'), '9', ',"log_uuid":null,"output_uuid":null'), 'A', '","state":"Final","requesting_container_uuid":null'), 'B', ',"log_uuid":"4zz18-'), 'C', '","output_uuid":"4zz18-'), 'D', '{"decision":"new","reason":"'), 'E', '{"decision":"'), 'F', '"the request asks for a new container (use_existing is false)","rule":"'), 'G', 'A container of another user is used only if the user of the request can read its inputs and, once it has ended, its log and its output."'), 'H', '","candidates":[],"nearest":null,"near":[],"git":{}}'), 'I', ',"priority":500'), 'J', ',"priority":0'), '0', 'Container output for request xvhdp-'), '1', 'Container log for container dz642-'), '2', 'output for dz642-'), '3', 'logs for dz642-'), '4', '"type":"output","container_request":"xvhdp-'), '5', '"type":"output","container_uuid":"dz642-'), '6', '"type":"log","container_request":"xvhdp-'), '7', '"type":"log","container_uuid":"dz642-'), '8', '","container_uuid":"dz642-'), '9', '"},"portable_data_hash":"'), 'A', '},"portable_data_hash":"'), 'B', '","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":["default"],"storage_classes_confirmed_at":"'), 'C', 'trash_at":null,"delete_at":null,"is_trashed":false,"version":'), 'D', 'trash_at":"'), 'E', 'delete_at":"'), 'F', 'is_trashed":true,"version":'), 'G', '1,"current_version_uuid":"","preserve_version":false,"file_count":'), 'H', ',"file_size_total":'), '', object_uuid), '', object_owner_uuid), '', owner_uuid), '', created_at), '', left(created_at, 17)), '', left(object_uuid, 6)) END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.allocations (
    container_uuid text NOT NULL,
    request_uuid text NOT NULL,
    user_uuid text NOT NULL,
    priority bigint NOT NULL,
    state text NOT NULL,
    started_at text NOT NULL,
    ended_at text
);
CREATE TABLE public.api_client_authorizations (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    created_by_ip_address text COLLATE pg_catalog."C",
    expires_at text COLLATE pg_catalog."C",
    last_used_at text COLLATE pg_catalog."C",
    last_used_by_ip_address text COLLATE pg_catalog."C",
    scopes public.lading_json DEFAULT '["all"]'::text,
    secret_hash text COLLATE pg_catalog."C",
    container_uuid text COLLATE pg_catalog."C"
);
CREATE TABLE public.authorized_keys (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    key_type text COLLATE pg_catalog."C",
    authorized_user_uuid text COLLATE pg_catalog."C",
    public_key text COLLATE pg_catalog."C",
    expires_at text COLLATE pg_catalog."C"
);
CREATE TABLE public.cancellations (
    id text NOT NULL,
    user_uuid text NOT NULL,
    filters text NOT NULL,
    created_at text NOT NULL,
    total bigint,
    cancelled bigint NOT NULL,
    refused bigint NOT NULL,
    position_at text NOT NULL,
    position_uuid text NOT NULL,
    finished_at text,
    error text NOT NULL,
    holder text NOT NULL,
    held_until text NOT NULL
);
CREATE TABLE public.cascades (
    kind text NOT NULL,
    subject_uuid text NOT NULL,
    begun_at text NOT NULL,
    "position" text NOT NULL,
    done bigint NOT NULL,
    holder text NOT NULL,
    held_until text NOT NULL
);
CREATE TABLE public.collections (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    portable_data_hash text COLLATE pg_catalog."C",
    manifest_text text DEFAULT ''::text COLLATE pg_catalog."C",
    replication_desired bigint,
    replication_confirmed bigint,
    replication_confirmed_at text COLLATE pg_catalog."C",
    storage_classes_desired public.lading_json DEFAULT '["default"]'::text,
    storage_classes_confirmed public.lading_json DEFAULT '[]'::text,
    storage_classes_confirmed_at text COLLATE pg_catalog."C",
    trash_at text COLLATE pg_catalog."C",
    delete_at text COLLATE pg_catalog."C",
    is_trashed smallint DEFAULT 0,
    version bigint DEFAULT 1,
    current_version_uuid text COLLATE pg_catalog."C",
    preserve_version smallint DEFAULT 0,
    file_count bigint DEFAULT 0,
    file_size_total bigint DEFAULT 0
);
CREATE TABLE public.container_attempts (
    container_uuid text NOT NULL,
    request_uuid text NOT NULL
);
CREATE TABLE public.container_inputs (
    portable_data_hash text NOT NULL,
    container_uuid text NOT NULL
);
CREATE TABLE public.container_requests (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    state text DEFAULT 'Uncommitted'::text COLLATE pg_catalog."C",
    requesting_container_uuid text COLLATE pg_catalog."C",
    container_uuid text COLLATE pg_catalog."C",
    container_count_max bigint,
    container_count bigint DEFAULT 0,
    attempted_container_uuids public.lading_json DEFAULT '[]'::text,
    command public.lading_json DEFAULT '[]'::text,
    container_image text COLLATE pg_catalog."C",
    cwd text DEFAULT '.'::text COLLATE pg_catalog."C",
    environment public.lading_json DEFAULT '{}'::text,
    mounts public.lading_json DEFAULT '{}'::text,
    secret_mounts text DEFAULT '{}'::text COLLATE pg_catalog."C",
    runtime_constraints public.lading_json DEFAULT '{}'::text,
    scheduling_parameters public.lading_json DEFAULT '{}'::text,
    output_path text COLLATE pg_catalog."C",
    output_glob public.lading_json DEFAULT '[]'::text,
    strict_output smallint DEFAULT 0,
    output_storage_classes public.lading_json DEFAULT '["default"]'::text,
    output_properties public.lading_json DEFAULT '{}'::text,
    runtime_token text COLLATE pg_catalog."C",
    service smallint DEFAULT 0,
    published_ports public.lading_json DEFAULT '{}'::text,
    steps public.lading_json DEFAULT '[]'::text,
    output_name text COLLATE pg_catalog."C",
    output_ttl bigint DEFAULT 0,
    priority bigint,
    use_existing smallint DEFAULT 1,
    match_resources smallint DEFAULT 0,
    only_reproduced smallint DEFAULT 0,
    expires_at text COLLATE pg_catalog."C",
    filters public.lading_json,
    parallel_group text COLLATE pg_catalog."C",
    max_parallel bigint DEFAULT 0,
    depends_on public.lading_json DEFAULT '[]'::text,
    start_after text COLLATE pg_catalog."C",
    retry_after text COLLATE pg_catalog."C",
    log_uuid text COLLATE pg_catalog."C",
    output_uuid text COLLATE pg_catalog."C",
    cumulative_cost double precision DEFAULT 0.0,
    committed_by_uuid text COLLATE pg_catalog."C",
    secrets_needed public.lading_json DEFAULT '[]'::text,
    resolving smallint DEFAULT 0
);
ALTER TABLE ONLY public.container_requests ALTER COLUMN state SET STATISTICS 0;
CREATE TABLE public.containers (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    state text DEFAULT 'Queued'::text COLLATE pg_catalog."C",
    command public.lading_json DEFAULT '[]'::text,
    container_image text COLLATE pg_catalog."C",
    cwd text DEFAULT '.'::text COLLATE pg_catalog."C",
    environment public.lading_json DEFAULT '{}'::text,
    mounts public.lading_json DEFAULT '{}'::text,
    secret_mounts text DEFAULT '{}'::text COLLATE pg_catalog."C",
    runtime_constraints public.lading_json DEFAULT '{}'::text,
    scheduling_parameters public.lading_json DEFAULT '{}'::text,
    output_path text COLLATE pg_catalog."C",
    output_glob public.lading_json DEFAULT '[]'::text,
    strict_output smallint DEFAULT 0,
    output_storage_classes public.lading_json DEFAULT '["default"]'::text,
    output_properties public.lading_json DEFAULT '{}'::text,
    runtime_token text COLLATE pg_catalog."C",
    service smallint DEFAULT 0,
    published_ports public.lading_json DEFAULT '{}'::text,
    steps public.lading_json DEFAULT '[]'::text,
    constraint_ranges public.lading_json DEFAULT '{}'::text,
    priority bigint DEFAULT 0,
    runtime_user_uuid text COLLATE pg_catalog."C",
    runtime_auth_scopes public.lading_json,
    locked_by_uuid text COLLATE pg_catalog."C",
    auth_uuid text COLLATE pg_catalog."C",
    lock_count bigint DEFAULT 0,
    runtime_status public.lading_json DEFAULT '{}'::text,
    progress double precision,
    log text COLLATE pg_catalog."C",
    output text COLLATE pg_catalog."C",
    exit_code bigint,
    usage public.lading_json DEFAULT '{}'::text,
    cost double precision DEFAULT 0.0,
    subrequests_cost double precision DEFAULT 0.0,
    started_at text COLLATE pg_catalog."C",
    finished_at text COLLATE pg_catalog."C",
    gateway_address text DEFAULT ''::text COLLATE pg_catalog."C",
    interactive_session_started smallint DEFAULT 0,
    traceparent text COLLATE pg_catalog."C",
    withdrawn_at text COLLATE pg_catalog."C",
    withdrawn_by_uuid text COLLATE pg_catalog."C",
    withdrawn_reason text COLLATE pg_catalog."C",
    supervisor_auth_uuid text COLLATE pg_catalog."C",
    last_locked_by_uuid text COLLATE pg_catalog."C",
    secret_mounts_md5 text COLLATE pg_catalog."C",
    reuse_key text COLLATE pg_catalog."C",
    broad_key text COLLATE pg_catalog."C",
    mount_contents public.lading_json DEFAULT '{}'::text
);
ALTER TABLE ONLY public.containers ALTER COLUMN state SET STATISTICS 0;
CREATE TABLE public.credentials (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    credential_class text COLLATE pg_catalog."C",
    scopes public.lading_json DEFAULT '[]'::text,
    external_id text COLLATE pg_catalog."C",
    secret text COLLATE pg_catalog."C",
    expires_at text COLLATE pg_catalog."C"
);
CREATE TABLE public.dispatcher_leases (
    token_uuid text NOT NULL,
    holder text NOT NULL,
    renewed_at text NOT NULL
);
CREATE TABLE public.dispatchers (
    uuid text NOT NULL,
    reported_at text NOT NULL
);
CREATE TABLE public.expected_starts (
    container_uuid text NOT NULL,
    noted_at text NOT NULL,
    wait double precision NOT NULL
);
CREATE TABLE public.fair_accounts (
    level bigint NOT NULL,
    share text NOT NULL,
    weight double precision NOT NULL,
    finish bigint NOT NULL,
    credit bigint NOT NULL,
    used bigint NOT NULL,
    seen bigint NOT NULL,
    expected bigint NOT NULL,
    reached bigint NOT NULL
);
CREATE TABLE public.fair_tickets (
    container_uuid text NOT NULL,
    level bigint NOT NULL,
    share text NOT NULL,
    created bigint NOT NULL,
    place text NOT NULL,
    tag bigint NOT NULL,
    vcpus double precision NOT NULL,
    weight double precision NOT NULL,
    expected bigint NOT NULL,
    charge bigint NOT NULL,
    lent bigint NOT NULL,
    held_at bigint NOT NULL,
    due bigint
);
CREATE TABLE public.grants (
    subject_uuid text NOT NULL COLLATE pg_catalog."C",
    target_uuid text NOT NULL COLLATE pg_catalog."C",
    level bigint NOT NULL,
    owning bigint NOT NULL
);
CREATE TABLE public.group_standing (
    uuid text NOT NULL COLLATE pg_catalog."C",
    trash_at text COLLATE pg_catalog."C",
    frozen bigint NOT NULL
);
CREATE TABLE public.groups (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    group_class text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    trash_at text COLLATE pg_catalog."C",
    delete_at text COLLATE pg_catalog."C",
    is_trashed smallint DEFAULT 0,
    container_policy public.lading_json DEFAULT '{}'::text,
    frozen_by_uuid text COLLATE pg_catalog."C"
);
CREATE TABLE public.learned_amounts (
    user_uuid text NOT NULL,
    program text NOT NULL,
    image text NOT NULL,
    size_class integer NOT NULL,
    ram bigint NOT NULL,
    disk_factor double precision NOT NULL,
    container_uuid text NOT NULL,
    learned_at text NOT NULL
);
CREATE TABLE public.lease_ids (
    token_uuid text NOT NULL,
    id text NOT NULL
);
CREATE TABLE public.links (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    link_class text DEFAULT ''::text COLLATE pg_catalog."C",
    name text DEFAULT ''::text COLLATE pg_catalog."C",
    tail_uuid text COLLATE pg_catalog."C",
    head_uuid text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text
);
CREATE TABLE public.logs (
    id bigint NOT NULL,
    uuid text COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    object_uuid text COLLATE pg_catalog."C",
    object_owner_uuid text COLLATE pg_catalog."C",
    former_owner_uuid text COLLATE pg_catalog."C",
    event_at text COLLATE pg_catalog."C",
    event_type text COLLATE pg_catalog."C",
    summary text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    shortened text COLLATE pg_catalog."C"
);
ALTER TABLE public.logs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.machine_orders (
    dispatcher_uuid text NOT NULL,
    machine text NOT NULL,
    document text NOT NULL
);
CREATE TABLE public.machine_reports (
    dispatcher_uuid text NOT NULL,
    reported_at text NOT NULL,
    document text NOT NULL
);
CREATE TABLE public.memberships (
    user_uuid text NOT NULL COLLATE pg_catalog."C",
    subject_uuid text NOT NULL COLLATE pg_catalog."C",
    level bigint NOT NULL
);
CREATE TABLE public.quota_charges (
    container_uuid text NOT NULL,
    subject_uuid text NOT NULL,
    rank bigint NOT NULL,
    held smallint NOT NULL,
    containers integer NOT NULL,
    vcpus bigint NOT NULL,
    ram bigint NOT NULL,
    gpus bigint NOT NULL,
    runs_workflow smallint NOT NULL
);
CREATE TABLE public.quota_spending (
    subject_uuid text NOT NULL,
    day text NOT NULL,
    amount double precision NOT NULL
);
CREATE TABLE public.quota_waits (
    request_uuid text NOT NULL,
    container_uuid text NOT NULL,
    subject_uuid text NOT NULL,
    reason text NOT NULL,
    rank bigint NOT NULL,
    again_at text
);
CREATE TABLE public.quotas (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    subject_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    containers bigint,
    vcpus bigint,
    ram bigint,
    gpus bigint,
    queued bigint,
    bytes_stored bigint,
    money double precision,
    period text DEFAULT 'month'::text COLLATE pg_catalog."C",
    budget double precision,
    warn_share double precision DEFAULT 0.8,
    stop smallint DEFAULT 0,
    contact text COLLATE pg_catalog."C"
);
CREATE TABLE public.repositories (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    fetch_url text COLLATE pg_catalog."C"
);
CREATE TABLE public.request_dependencies (
    dependent_uuid text NOT NULL,
    dependency_uuid text NOT NULL
);
CREATE TABLE public.run_times (
    user_uuid text NOT NULL,
    program text NOT NULL,
    image text NOT NULL,
    size_class integer NOT NULL,
    seconds text NOT NULL,
    learned_at text NOT NULL
);
CREATE TABLE public.scheduling_statuses (
    container_uuid text NOT NULL,
    dispatcher_uuid text NOT NULL,
    reason text NOT NULL,
    sentence text NOT NULL
);
CREATE TABLE public.schema_versions (
    version integer NOT NULL,
    applied_at text NOT NULL,
    name text
);
CREATE TABLE public.start_errors (
    id integer NOT NULL,
    errors text NOT NULL
);
CREATE TABLE public.task_deliveries (
    request_uuid text NOT NULL,
    url text NOT NULL,
    size bigint NOT NULL,
    checksum text NOT NULL
);
CREATE TABLE public.task_keys (
    digest text NOT NULL,
    claimed_at text NOT NULL,
    request_uuid text NOT NULL
);
CREATE TABLE public.task_transfers (
    request_uuid text NOT NULL,
    user_uuid text NOT NULL,
    phase text NOT NULL,
    note text NOT NULL,
    failures integer NOT NULL,
    document text NOT NULL,
    holder text NOT NULL,
    held_until text NOT NULL
);
CREATE TABLE public.users (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    email text COLLATE pg_catalog."C",
    username text COLLATE pg_catalog."C",
    first_name text DEFAULT ''::text COLLATE pg_catalog."C",
    last_name text DEFAULT ''::text COLLATE pg_catalog."C",
    identity_url text COLLATE pg_catalog."C",
    is_active smallint DEFAULT 1,
    is_admin smallint DEFAULT 0,
    prefs public.lading_json DEFAULT '{}'::text,
    redirect_to_user_uuid text COLLATE pg_catalog."C"
);
CREATE TABLE public.virtual_machines (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    hostname text COLLATE pg_catalog."C"
);
CREATE TABLE public.webhook_attempts (
    webhook_uuid text NOT NULL,
    number bigint NOT NULL,
    log_id bigint NOT NULL,
    event_type text NOT NULL,
    outcome text NOT NULL,
    status integer NOT NULL,
    fault text NOT NULL,
    tried_at text NOT NULL
);
CREATE TABLE public.webhook_letters (
    webhook_uuid text NOT NULL,
    log_id bigint NOT NULL,
    event_type text NOT NULL,
    is_queued integer NOT NULL,
    fault text NOT NULL,
    failed_at text NOT NULL
);
CREATE TABLE public.webhook_positions (
    webhook_uuid text NOT NULL,
    "position" bigint NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    failing_since text NOT NULL,
    next_at text NOT NULL,
    holder text NOT NULL,
    held_until text NOT NULL,
    delivered bigint NOT NULL,
    delivered_at text NOT NULL,
    fault text NOT NULL
);
CREATE TABLE public.webhooks (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    url text COLLATE pg_catalog."C",
    format text DEFAULT 'cloudevents'::text COLLATE pg_catalog."C",
    event_types public.lading_json DEFAULT '["lading.container_request.*"]'::text,
    states public.lading_json DEFAULT '[]'::text,
    project_uuid text COLLATE pg_catalog."C",
    state text DEFAULT 'Active'::text COLLATE pg_catalog."C",
    paused_reason text COLLATE pg_catalog."C",
    subscriber_uuid text COLLATE pg_catalog."C",
    secret text COLLATE pg_catalog."C",
    former_secret text COLLATE pg_catalog."C",
    former_secret_until text COLLATE pg_catalog."C"
);
CREATE TABLE public.workflows (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    definition text COLLATE pg_catalog."C",
    collection_uuid text COLLATE pg_catalog."C"
);
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596k2ce3lx9c', 'zzzzz-xvhdp-b9y596jyk47epwe', 'zzzzz-tpzed-b9y596jd4wx8uez', 1, 'Locked', '2026-01-02T03:04:05.100000000Z', '2026-01-02T03:04:05.106000000Z');
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596k2ce3lx9c', 'zzzzz-xvhdp-b9y596jyk47epwe', 'zzzzz-tpzed-b9y596jd4wx8uez', 1, 'Running', '2026-01-02T03:04:05.106000000Z', '2026-01-02T03:04:05.132000000Z');
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596lacun76bu', 'zzzzz-xvhdp-b9y596l61z13yxz', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1000, 'Running', '2026-01-02T03:04:05.194000000Z', NULL);
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596lacun76bu', 'zzzzz-xvhdp-b9y596l61z13yxz', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1000, 'Locked', '2026-01-02T03:04:05.188000000Z', '2026-01-02T03:04:05.194000000Z');
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.005000000Z', '2026-01-02T03:04:05.005000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["all"]', '160b4e433e384e05e537dc59b467f7cb2403f0214db15c5db58862a3f1156d2e', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.007000000Z', '2026-01-02T03:04:05.007000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/dispatch/machines","POST /arvados/v1/logs","GET /websocket"]', 'd7bea1c4096828f2a20e45524019f6987f3ec62807064bd240d23ec3a1be3990', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596jiue3y7vj', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.052000000Z', '2026-01-02T03:04:05.052000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '127.0.0.1', NULL, NULL, NULL, '["all"]', '8bf81987d2b3901c0e65a092e9258000f378c029d876630005a66b8a3e599a9a', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596k53vzn99g', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.100000000Z', '2026-01-02T03:04:05.134000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.134000000Z', NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c","PUT /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c","GET /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/secret_mounts","POST /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/progress","GET /arvados/v1/containers/current","GET /arvados/v1/users/current","GET /arvados/v1/collections/7b1921fee314b8aab5b2cd8488d5cfc1+117","POST /arvados/v1/collections"]', 'dc48dd625a9cea4cb2005d19eff5113e71593f5893556653f0a18be7c7549654', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596k5r6ezupa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.100000000Z', '2026-01-02T03:04:05.134000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.134000000Z', NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c","PUT /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c","GET /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/auth","POST /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/unlock","POST /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/live/","POST /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/finish","POST /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/gateway_tunnel","GET /arvados/v1/containers/zzzzz-dz642-b9y596k2ce3lx9c/git_tree","GET /arvados/v1/users/current"]', '5ba72f495f3b49cafd000bd8cdee00ddc35c1b1f81a99a46ce48bc77c2255e73', 'zzzzz-dz642-b9y596k2ce3lx9c');
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596ldu3x2t81', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.188000000Z', '2026-01-02T03:04:05.188000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu","PUT /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu","GET /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/secret_mounts","POST /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/progress","GET /arvados/v1/containers/current","GET /arvados/v1/users/current","GET /arvados/v1/collections/7b1921fee314b8aab5b2cd8488d5cfc1+117","POST /arvados/v1/collections"]', 'f785cfc115334d8cb12e665fba4aa1dce261ba95686911c22439fbe63dfdb067', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596ldmbo2tzx', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.188000000Z', '2026-01-02T03:04:05.188000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu","PUT /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu","GET /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/auth","POST /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/unlock","POST /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/live/","POST /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/finish","POST /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/gateway_tunnel","GET /arvados/v1/containers/zzzzz-dz642-b9y596lacun76bu/git_tree","GET /arvados/v1/users/current"]', '7e1712e922eecd59a85531a60fbcf8299571ad7866bf7375eb4e9fc5808e5b0b', 'zzzzz-dz642-b9y596lacun76bu');
INSERT INTO public.collections VALUES ('zzzzz-4zz18-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.019000000Z', '2026-01-02T03:04:05.019000000Z', 'zzzzz-tpzed-000000000000000', 'empty collection', NULL, '{}', 'd41d8cd98f00b204e9800998ecf8427e+0', '', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-000000000000000', 0, 0, 0);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596jlcp113mh', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.057000000Z', '2026-01-02T03:04:05.057000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'O''Neill', NULL, '{"k":"v","n":5,"list":["a",1]}', '89d39e194d313850607aa996373d6625+47', '. 5d41402abc4b2a76b9719d911017c592+5 0:5:a.txt
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.060000000Z', NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596jlcp113mh', 0, 1, 5);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596jueb3giz1', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.076000000Z', '2026-01-02T03:04:05.076000000Z', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.079000000Z', NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596jueb3giz1', 0, 1, 8);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596keko1hos8', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.115000000Z', '2026-01-02T03:04:05.115000000Z', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, '{}', 'da4ce11579606478a7e85bda16265bf7+58', '. 263e3e79a43ae31a5e0b69c10c2bb194+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.118000000Z', '2026-01-02T03:04:05.117000000Z', '2026-01-16T03:04:05.117000000Z', 1, 1, 'zzzzz-4zz18-b9y596keko1hos8', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kine70msj', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.124000000Z', '2026-01-02T03:04:05.124000000Z', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, '{}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.127000000Z', '2026-01-02T03:04:05.126000000Z', '2026-01-16T03:04:05.126000000Z', 1, 1, 'zzzzz-4zz18-b9y596kine70msj', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kp9pdqvyq', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.137000000Z', '2026-01-02T03:04:05.137000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for request zzzzz-xvhdp-b9y596jyk47epwe', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-b9y596jyk47epwe"}', 'c179a3ae399ec5a83709545d4a2ed61b+171', '. 263e3e79a43ae31a5e0b69c10c2bb194+27 0:27:crunch-run.txt
./log\040for\040container\040zzzzz-dz642-b9y596k2ce3lx9c 263e3e79a43ae31a5e0b69c10c2bb194+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.137000000Z', NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596kp9pdqvyq', 0, 2, 54);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kqurwyq3n', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.137000000Z', '2026-01-02T03:04:05.137000000Z', 'zzzzz-tpzed-000000000000000', 'Container output for request zzzzz-xvhdp-b9y596jyk47epwe', NULL, '{"type":"output","container_request":"zzzzz-xvhdp-b9y596jyk47epwe"}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.137000000Z', NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596kqurwyq3n', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kra2dndza', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.137000000Z', '2026-01-02T03:04:05.137000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for container zzzzz-dz642-b9y596k2ce3lx9c', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-b9y596jyk47epwe","container_uuid":"zzzzz-dz642-b9y596k2ce3lx9c"}', 'da4ce11579606478a7e85bda16265bf7+58', '. 263e3e79a43ae31a5e0b69c10c2bb194+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.137000000Z', NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596kra2dndza', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596ku3krqkl0', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.148000000Z', '2026-01-02T03:04:05.148000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '["default"]', '2026-01-02T03:04:05.151000000Z', NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596ku3krqkl0', 0, 1, 8);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596jyk47epwe', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.089000000Z', '2026-01-02T03:04:05.134000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, '{}', 'Final', NULL, 'zzzzz-dz642-b9y596k2ce3lx9c', 3, 1, '[]', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', 0, '["default"]', '{}', NULL, 0, '{}', '[]', NULL, 0, 1, 1, 0, 0, NULL, NULL, NULL, 0, '[]', NULL, NULL, 'zzzzz-4zz18-b9y596kp9pdqvyq', 'zzzzz-4zz18-b9y596kqurwyq3n', 0, 'zzzzz-tpzed-b9y596jd4wx8uez', '[]', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596kyv362dq2', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.162000000Z', '2026-01-02T03:04:05.162000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'Committed', NULL, 'zzzzz-dz642-b9y596l362p638g', 3, 1, '[]', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', 'sealed1:My+LEiQIP9IrkC+J6Kspd6OVE8XTDb/oExjzkOebMoTvozhsVJGfnlXu6qB9O4RK1y+Qs7zWdAY6MSpIBwJDeN9zBTCu', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', 0, '["default"]', '{}', 'sealed1:EegYGPjJnV1dmDGVk7fxS/ofuxZ+7btVJ9MWOF7ePohZ7aKZ0wb6792Ve+zav+QQcxlYYTvNt49RxU6TTOqVFBhS9sB2onrAavu7l7vy9J5QX4bjLKkTwJ+NyuDAFmSBwuEKP4v+BwjGsbBRLA==', 0, '{}', '[]', NULL, 0, 1, 1, 0, 0, NULL, NULL, NULL, 0, '[]', NULL, NULL, NULL, NULL, 0, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '[{"target":"/s","kind":"text"}]', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596l61z13yxz', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.177000000Z', '2026-01-02T03:04:05.177000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'Committed', NULL, 'zzzzz-dz642-b9y596lacun76bu', 3, 1, '[]', '["echo","3"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', 0, '["default"]', '{}', NULL, 0, '{}', '[]', NULL, 0, 1000, 1, 0, 0, NULL, NULL, NULL, 0, '[]', NULL, NULL, NULL, NULL, 0, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '[]', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596ljaf8unjx', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.201000000Z', '2026-01-02T03:04:05.212000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'later', NULL, '{}', 'Uncommitted', NULL, NULL, 3, 0, '[]', '["echo","4"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', 0, '["default"]', '{}', NULL, 0, '{}', '[]', NULL, 0, 1, 1, 0, 0, NULL, NULL, NULL, 0, '["zzzzz-xvhdp-b9y596jyk47epwe"]', NULL, NULL, NULL, NULL, 0, NULL, '[]', 0);
INSERT INTO public.containers VALUES ('zzzzz-dz642-b9y596k2ce3lx9c', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.089000000Z', '2026-01-02T03:04:05.134000000Z', 'zzzzz-tpzed-000000000000000', 'Complete', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', 0, '["default"]', '{}', NULL, 0, '{}', '[]', '{}', 1124132583797535, 'zzzzz-tpzed-b9y596jd4wx8uez', '["all"]', NULL, NULL, 1, '{}', NULL, 'da4ce11579606478a7e85bda16265bf7+58', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', 0, '{}', 0, 0, '2026-01-02T03:04:05.105000000Z', '2026-01-02T03:04:05.132000000Z', '', 0, NULL, NULL, NULL, NULL, NULL, 'zzzzz-gj3su-ddddddddddddddd', '99914b932bd37a50b983c5e7c90ae93b', '7ddc1492655671ada59a3e0e4a39a8553452bba82759e7d23989fc6dfd9f0df0', '0593027aedb5e64e346649d534b72dc5dc10f33a44ad7d520874c69b280c3a55', '{}');
INSERT INTO public.containers VALUES ('zzzzz-dz642-b9y596l362p638g', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.162000000Z', '2026-01-02T03:04:05.162000000Z', 'zzzzz-tpzed-000000000000000', 'Queued', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', 'sealed1:OLTmUuRNp/I3DZ4ms2+A0xBfQydrHgHt7/nbLwznGtWiGLvLQ23b6MnFE6RYPOTLk2QiDEPoKoSFVqZDzJoQ2nCv1Q7b', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false,"expected_run_time":1}', '/out', '[]', 0, '["default"]', '{}', 'sealed1:DicTZVCko6bQf1wMALH+yT8U35V+7lPVbFB1t5P0auZModGHhAlSgg1Jsu/TSNQAYXhTtcYlWtmcIfgxi1UkLxW5LBX/9qQIkRUoS7oO/lYxODdiknGH0rn0rMeir7iDnigHFG9ShqKrbs/CfA==', 0, '{}', '[]', '{}', 1124132583797462, 'zzzzz-tpzed-b9y596jd4wx8uez', '["all"]', NULL, NULL, 0, '{}', NULL, NULL, NULL, NULL, '{}', 0, 0, NULL, NULL, '', 0, NULL, NULL, NULL, NULL, NULL, NULL, '2cafbeb8424de840068d6e5887c0932a', 'caa8b678b1ab0a38f6db908fa8b7eed394b88c4e59e7efe164bc598db8d85093', '1ddc27890efb99eb646ea3de141d48831b518b3388b967d4651141e652c0a61f', '{}');
INSERT INTO public.containers VALUES ('zzzzz-dz642-b9y596lacun76bu', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.177000000Z', '2026-01-02T03:04:05.194000000Z', 'zzzzz-tpzed-000000000000000', 'Running', '["echo","3"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', 0, '["default"]', '{}', NULL, 0, '{}', '[]', '{}', 1125898139519578823, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '["all"]', 'zzzzz-gj3su-ddddddddddddddd', 'zzzzz-gj3su-b9y596ldu3x2t81', 1, '{}', NULL, NULL, NULL, NULL, '{}', 0, 0, '2026-01-02T03:04:05.193000000Z', NULL, '', 0, NULL, NULL, NULL, NULL, 'zzzzz-gj3su-b9y596ldmbo2tzx', 'zzzzz-gj3su-ddddddddddddddd', '99914b932bd37a50b983c5e7c90ae93b', '6fe07a8a2af448e4baf5972523d93f3c86e6821059fcaea8997c851539179393', '9e422c141a566aeea6ecb675ae9e67e48a97be5d8c6eb045a4335a9e9344543e', '{}');
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-anonymouspublic', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-000000000000000', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-fffffffffffffff', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-anonymouspublic', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-publicfavorites', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', 1, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-anonymouspublic', 1, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-publicfavorites', 1, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-anonymouspublic', 'zzzzz-4zz18-000000000000000', 1, 0);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-fffffffffffffff', 2, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1, 0);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-tpzed-b9y596jd4wx8uez', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-j7d0g-fffffffffffffff', 2, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-b9y596jd4wx8uez', 1, 0);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-j7d0g-b9y596lnlgib6x6', 3, 1);
INSERT INTO public.group_standing VALUES ('zzzzz-j7d0g-b9y596lnlgib6x6', '2026-01-02T03:04:05.219000000Z', 0);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.011000000Z', '2026-01-02T03:04:05.011000000Z', 'zzzzz-tpzed-000000000000000', 'System group', 'role', NULL, '{}', NULL, NULL, 0, '{}', NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.013000000Z', '2026-01-02T03:04:05.013000000Z', 'zzzzz-tpzed-000000000000000', 'All users', 'role', NULL, '{}', NULL, NULL, 0, '{}', NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.015000000Z', '2026-01-02T03:04:05.015000000Z', 'zzzzz-tpzed-000000000000000', 'Anonymous users', 'role', NULL, '{}', NULL, NULL, 0, '{}', NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-publicfavorites', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.017000000Z', '2026-01-02T03:04:05.017000000Z', 'zzzzz-tpzed-000000000000000', 'Public favorites', 'project', NULL, '{}', NULL, NULL, 0, '{}', NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-b9y596lnlgib6x6', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.205000000Z', '2026-01-02T03:04:05.220000000Z', 'zzzzz-tpzed-b9y596jd4wx8uez', 'work', 'project', NULL, '{}', '2026-01-02T03:04:05.219000000Z', '2026-01-16T03:04:05.219000000Z', 1, '{}', NULL);
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j22wvewtw', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', '2026-01-02T03:04:05.022000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j4h9gt0q2', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.025000000Z', '2026-01-02T03:04:05.025000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-anonymouspublic', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j5htvuium', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', '2026-01-02T03:04:05.028000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-publicfavorites', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j7sjnw94a', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.031000000Z', '2026-01-02T03:04:05.031000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-anonymouspublic', 'zzzzz-4zz18-000000000000000', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j863vneji', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.034000000Z', '2026-01-02T03:04:05.034000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_write', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-fffffffffffffff', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596jaev6jhgp', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.037000000Z', '2026-01-02T03:04:05.037000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596jej3q1vfg', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.044000000Z', '2026-01-02T03:04:05.044000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'permission', 'can_write', 'zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-j7d0g-fffffffffffffff', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596jgwgzac5k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.047000000Z', '2026-01-02T03:04:05.047000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-b9y596jd4wx8uez', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596jpv1ozubc', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.065000000Z', '2026-01-02T03:04:05.065000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'tag', 't', NULL, 'zzzzz-4zz18-b9y596jlcp113mh', '{}');
INSERT INTO public.logs VALUES (1, 'zzzzz-57u5n-b9y596itw6exu58', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.001000000Z', NULL, NULL, 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0aebc0c0fdc50ba7fd5a32bc9f","new_attributes":{"uuid":"","owner_uuid":"","created_at":"","modified_at":"7","email":null,"username":"root","first_name":"root","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (2, 'zzzzz-57u5n-b9y596iul4rh2ro', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.003000000Z', NULL, NULL, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0f0a38221ad1968ce5c624489d1","email":null,"username":"admin","first_name":"admin","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (3, 'zzzzz-57u5n-b9y596iv06h82av', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.005000000Z', NULL, NULL, 'zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'create', NULL, NULL, '05cf03278533af6b9336c90f101","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (4, 'zzzzz-57u5n-b9y596iweqgq3bv', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.007000000Z', NULL, NULL, 'zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0abd193ebccc64b6dc41cbc72b1","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/dispatch/machines","POST /arvados/v1/logs","GET /websocket"]}}');
INSERT INTO public.logs VALUES (5, 'zzzzz-57u5n-b9y596ixidzwxh2', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.009000000Z', NULL, NULL, 'zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '093c35d228dd530761d15a3d081","email":null,"username":null,"first_name":"Anonymous","last_name":"","identity_url":null,"is_active":false,"is_admin":false,"prefs":{}}}');
INSERT INTO public.logs VALUES (6, 'zzzzz-57u5n-b9y596iyjem081f', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.011000000Z', NULL, NULL, 'zzzzz-j7d0g-000000000000000', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '004b6b4cc194972c0244e40f5f1NSystem group","group_class":"role",L},"trash_at":null,"delete_at":null,"is_trashed":false,"container_policy":{},"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (7, 'zzzzz-57u5n-b9y596iz5u8qhz1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.013000000Z', NULL, NULL, 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '067831b0e33268f549501e9e711NAll users","group_class":"role",L},"trash_at":null,"delete_at":null,"is_trashed":false,"container_policy":{},"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (8, 'zzzzz-57u5n-b9y596j0h7c74d8', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.015000000Z', NULL, NULL, 'zzzzz-j7d0g-anonymouspublic', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0cdde68f5edefec86abe0f3af01NAnonymous users","group_class":"role",L},"trash_at":null,"delete_at":null,"is_trashed":false,"container_policy":{},"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (9, 'zzzzz-57u5n-b9y596j1r1hb2h9', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.017000000Z', NULL, NULL, 'zzzzz-j7d0g-publicfavorites', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '072bfe6c138de322738d91bc241NPublic favorites","group_class":"project",L},"trash_at":null,"delete_at":null,"is_trashed":false,"container_policy":{},"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (10, 'zzzzz-57u5n-b9y596j282w15dj', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.019000000Z', NULL, NULL, 'zzzzz-4zz18-000000000000000', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0f4e348af1b8476e96211a2b981Nempty collection",LAd41d8cd98f00b204e9800998ecf8427e+0","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"CG0H0}}');
INSERT INTO public.logs VALUES (11, 'zzzzz-57u5n-b9y596j3pe1i9od', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596j22wvewtw', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0a5ac0cffb1a93da713d16fab31","link_class":"permissionNcan_read","tail_uuid":"tpzed-anonymouspublic","head_uuid":"j7d0g-anonymouspublic","properties":{}}}');
INSERT INTO public.logs VALUES (12, 'zzzzz-57u5n-b9y596j5f8y7d8y', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.025000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596j4h9gt0q2', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0652818bf61817444b9569d7551","link_class":"permissionNcan_read","tail_uuid":"j7d0g-fffffffffffffff","head_uuid":"j7d0g-anonymouspublic","properties":{}}}');
INSERT INTO public.logs VALUES (13, 'zzzzz-57u5n-b9y596j6w3wmxdl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596j5htvuium', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0f0686fbfcf7ede4a01cd647871","link_class":"permissionNcan_read","tail_uuid":"j7d0g-fffffffffffffff","head_uuid":"j7d0g-publicfavorites","properties":{}}}');
INSERT INTO public.logs VALUES (14, 'zzzzz-57u5n-b9y596j8uccwn59', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.031000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596j7sjnw94a', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0e9c8b711e92fc17ba2a45dd2a1","link_class":"permissionNcan_read","tail_uuid":"j7d0g-anonymouspublic","head_uuid":"4zz18-000000000000000","properties":{}}}');
INSERT INTO public.logs VALUES (15, 'zzzzz-57u5n-b9y596j9v3uo6ua', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.034000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596j863vneji', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0b79d4246e4f4b792a0bb98f131","link_class":"permissionNcan_write","tail_uuid":"tpzed-aaaaaaaaaaaaaaa","head_uuid":"j7d0g-fffffffffffffff","properties":{}}}');
INSERT INTO public.logs VALUES (16, 'zzzzz-57u5n-b9y596jba6b4ytq', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.037000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596jaev6jhgp', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '061dc204e51ac9c26707b236a41","link_class":"permissionNcan_read","tail_uuid":"j7d0g-fffffffffffffff","head_uuid":"tpzed-aaaaaaaaaaaaaaa","properties":{}}}');
INSERT INTO public.logs VALUES (17, 'zzzzz-57u5n-b9y596jdvxinkrj', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.041000000Z', NULL, NULL, 'zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '00705462d470a4ba43b40c06c11","email":"ada@example.org","username":"ada","first_name":"","last_name":"","identity_url":null,"is_active":true,"is_admin":false,"prefs":{}}}');
INSERT INTO public.logs VALUES (18, 'zzzzz-57u5n-b9y596jfgbvg29f', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.044000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596jej3q1vfg', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0f9839cb516efaa3dbbd1f9d6a1","link_class":"permissionNcan_write","tail_uuid":"tpzed-b9y596jd4wx8uez","head_uuid":"j7d0g-fffffffffffffff","properties":{}}}');
INSERT INTO public.logs VALUES (19, 'zzzzz-57u5n-b9y596jgr5cmb46', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.047000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596jgwgzac5k', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0b200373d618921a29ea52a7ca1","link_class":"permissionNcan_read","tail_uuid":"j7d0g-fffffffffffffff","head_uuid":"tpzed-b9y596jd4wx8uez","properties":{}}}');
INSERT INTO public.logs VALUES (20, 'zzzzz-57u5n-b9y596jjb35cewr', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.052000000Z', NULL, NULL, 'zzzzz-gj3su-b9y596jiue3y7vj', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '0386fd0bf65b8dc6953a4aff3a1","created_by_ip_address":"127.0.0.1","expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (21, 'zzzzz-57u5n-b9y596jmiufe9zm', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.057000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596jlcp113mh', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'create', NULL, NULL, '0b0460bd76567ec3378ef464f51NO''Neill",L"k":"v","n":5,"list":["a",1]A89d39e194d313850607aa996373d6625+47B05.060000MCG1H5}}');
INSERT INTO public.logs VALUES (22, 'zzzzz-57u5n-b9y596jpq0pe8ng', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.065000000Z', NULL, NULL, 'zzzzz-o0j2j-b9y596jpv1ozubc', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'create', NULL, NULL, '02b8125bc919a31de8366325d01","link_class":"tagNt","tail_uuid":null,"head_uuid":"4zz18-b9y596jlcp113mh","properties":{}}}');
INSERT INTO public.logs VALUES (23, 'zzzzz-57u5n-b9y596jrak38xd7', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.070000000Z', '2026-01-02T03:04:05.070000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-b9y596jlcp113mh', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, '2026-01-02T03:04:05.070000000Z', 'note', NULL, '{"text":"Grüße ✓"}', NULL);
INSERT INTO public.logs VALUES (24, 'zzzzz-57u5n-b9y596jw5f71oj2', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.076000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596jueb3giz1', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '07aaf216efee1985f2e2fe02681","name":null,LA7b1921fee314b8aab5b2cd8488d5cfc1+117B05.079000MCG1H8}}');
INSERT INTO public.logs VALUES (25, 'zzzzz-57u5n-b9y596k2rfe7wtp', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.089000000Z', NULL, NULL, 'zzzzz-dz642-b9y596k2ce3lx9c', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0a3032082f88fb66f07eb89bc81","0echo","1O7b1921fee314b8aab5b2cd8488d5cfc1+117E.F/out":{"capacity":1000,"kind":"tmp"}IC,J268435456,"vcpus":1}B/out"A1112413258379753523');
INSERT INTO public.logs VALUES (26, 'zzzzz-57u5n-b9y596k3hwa7cmg', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.089000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596jyk47epwe', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'resolve', 'new zzzzz-dz642-b9y596k2ce3lx9c: the same was never asked for before', NULL, 'Dthe same was never asked for before","rule":"G1b9y596k2ce3lx9cH');
INSERT INTO public.logs VALUES (27, 'zzzzz-57u5n-b9y596k31q9ds4c', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.089000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596jyk47epwe', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '04b295ceee2a4443f582eb13c31","name":null,L0null1b9y596k2ce3lx9c2echo","1O7b1921fee314b8aab5b2cd8488d5cfc1+117E.F/out":{"kind":"tmp","capacity":1000}IK268435456,"vcpus":1,C}B/out"A3null415true60.07');
INSERT INTO public.logs VALUES (28, 'zzzzz-57u5n-b9y596k7yzevwyu', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.101000000Z', NULL, NULL, 'zzzzz-dz642-b9y596k2ce3lx9c', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'update', NULL, NULL, '2a3032082f88fb66f07eb89bc8305.089000M4505fe103cf8c7717de1280d38a605.100000M5ddddddddddddddd6b9y596k53vzn99g7');
INSERT INTO public.logs VALUES (29, 'zzzzz-57u5n-b9y596kabow5og6', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.107000000Z', NULL, NULL, 'zzzzz-dz642-b9y596k2ce3lx9c', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'update', NULL, NULL, '205fe103cf8c7717de1280d38a305.100000M85756a8c2e80fbf97adc7ad748d605.106000M905.105000000Z"}}');
INSERT INTO public.logs VALUES (30, 'zzzzz-57u5n-b9y596kf929t1un', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.115000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596keko1hos8', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '0503f012034073a73653d619231","name":null,LAda4ce11579606478a7e85bda16265bf7+58B05.118000MD05.117000ME2026-01-16T03:04:05.117000MFG1H27}}');
INSERT INTO public.logs VALUES (31, 'zzzzz-57u5n-b9y596kkiydusms', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.124000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596kine70msj', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '0aaf5d9807d99475862f6898191","name":null,LAdd8572c295693ec8dda7d6a1a6cd1f6c+49B05.127000MD05.126000ME2026-01-16T03:04:05.126000MFG1H6}}');
INSERT INTO public.logs VALUES (32, 'zzzzz-57u5n-b9y596ko5z2f8q5', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.135000000Z', NULL, NULL, 'zzzzz-dz642-b9y596k2ce3lx9c', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'update', NULL, NULL, '2756a8c2e80fbf97adc7ad748d305.106000MAddddddddddddddd6b9y596k53vzn99g","log":null,"output":null,"exit_code":null,"finished_at":null594a7d58fe5f7d3ead65fef60c605.134000MCda4ce11579606478a7e85bda16265bf7+58Ddd8572c295693ec8dda7d6a1a6cd1f6c+49E0,"finished_at":"05.132000000Z"}}');
INSERT INTO public.logs VALUES (33, 'zzzzz-57u5n-b9y596kpvi6p1ql', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.137000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596kp9pdqvyq', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '0c8ca1c9835e25016686a94fb11NContainer log for request xvhdp-b9y596jyk47epwe",L6b9y596jyk47epwe9c179a3ae399ec5a83709545d4a2ed61b+171B","CG2H54}}');
INSERT INTO public.logs VALUES (34, 'zzzzz-57u5n-b9y596kqzug4mds', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.137000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596kqurwyq3n', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '05fa47f4637723c59d25dfa7e41N0b9y596jyk47epwe",L4b9y596jyk47epwe9dd8572c295693ec8dda7d6a1a6cd1f6c+49B","CG1H6}}');
INSERT INTO public.logs VALUES (35, 'zzzzz-57u5n-b9y596kr15onwhl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.137000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596kra2dndza', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '005cc3e8d08fed75f6a6e6bc861N1b9y596k2ce3lx9c",L6b9y596jyk47epwe8b9y596k2ce3lx9c9da4ce11579606478a7e85bda16265bf7+58B","CG1H27}}');
INSERT INTO public.logs VALUES (36, 'zzzzz-57u5n-b9y596ksm8r5t79', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.144000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596jyk47epwe', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'update', NULL, NULL, '24b295ceee2a4443f582eb13c3305.089000000Z7","name":null,"state":"Committed","requesting_container_uuid":null95a6cfc02a5a8f23f549411e9a8605.134000000Z7","name":null,"state":"Final","requesting_container_uuid":nullBb9y596kp9pdqvyqCb9y596kqurwyq3n"}}');
INSERT INTO public.logs VALUES (37, 'zzzzz-57u5n-b9y596kw8fzalj5', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.148000000Z', NULL, NULL, 'zzzzz-4zz18-b9y596ku3krqkl0', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'create', NULL, NULL, '0ce0de39e0890e2124e07583aa1","name":null,LA7b1921fee314b8aab5b2cd8488d5cfc1+117B05.151000MCG1H8}}');
INSERT INTO public.logs VALUES (38, 'zzzzz-57u5n-b9y596l3oiz3hhx', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.162000000Z', NULL, NULL, 'zzzzz-dz642-b9y596l362p638g', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '02f58c174614c40b54f2926cac1","0echo","2O7b1921fee314b8aab5b2cd8488d5cfc1+117E.F/out":{"capacity":1000,"kind":"tmp"}IC,J268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false,"expected_run_time":1},"output_path":"/out"A111241325837974622tpzed-b9y596jd4wx8uez3');
INSERT INTO public.logs VALUES (39, 'zzzzz-57u5n-b9y596l4zgldp21', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.162000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596kyv362dq2', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'resolve', 'new zzzzz-dz642-b9y596l362p638g: the same was never asked for before', NULL, 'Dthe same was never asked for before","rule":"It acts with a token of its request: only a container that ran for the same user is used."1b9y596l362p638gH');
INSERT INTO public.logs VALUES (40, 'zzzzz-57u5n-b9y596l4oqrp8x4', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.162000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596kyv362dq2', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'create', NULL, NULL, '09bc8ff4fbcca6d9ca70567e0e1","name":null,L0null1b9y596l362p638g2echo","2O7b1921fee314b8aab5b2cd8488d5cfc1+117E.F/out":{"kind":"tmp","capacity":1000}IK268435456,"vcpus":1,C}B/out"A3null415true60.0,"committed_by_uuid":"","secrets_needed":[{"target":"/s","kind":"text"}]}}');
INSERT INTO public.logs VALUES (41, 'zzzzz-57u5n-b9y596laa1ffnmj', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.177000000Z', NULL, NULL, 'zzzzz-dz642-b9y596lacun76bu', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'create', NULL, NULL, '0f4725b508f5dc04ca938977ff1","0echo","3O7b1921fee314b8aab5b2cd8488d5cfc1+117E.F/out":{"capacity":1000,"kind":"tmp"}IC,J268435456,"vcpus":1}B/out"A1112589813951957882323');
INSERT INTO public.logs VALUES (42, 'zzzzz-57u5n-b9y596lbzci4tjl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.177000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596l61z13yxz', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'resolve', 'new zzzzz-dz642-b9y596lacun76bu: the same was never asked for before', NULL, 'Dthe same was never asked for before","rule":"G1b9y596lacun76buH');
INSERT INTO public.logs VALUES (43, 'zzzzz-57u5n-b9y596lbm6sk72w', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.177000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596l61z13yxz', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'create', NULL, NULL, '05b60bc0fa3cd4c28cff4e92eb1","name":null,L0null1b9y596lacun76bu2echo","3O7b1921fee314b8aab5b2cd8488d5cfc1+117E.F/out":{"kind":"tmp","capacity":1000}IK268435456,"vcpus":1,C}B/out"A3null410005true60.07');
INSERT INTO public.logs VALUES (44, 'zzzzz-57u5n-b9y596lfbpc3wru', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.189000000Z', NULL, NULL, 'zzzzz-dz642-b9y596lacun76bu', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'update', NULL, NULL, '2f4725b508f5dc04ca938977ff305.177000M45fac055bd915b54ea9b595081c605.188000M5ddddddddddddddd6b9y596ldu3x2t817');
INSERT INTO public.logs VALUES (45, 'zzzzz-57u5n-b9y596li4mgww6x', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.195000000Z', NULL, NULL, 'zzzzz-dz642-b9y596lacun76bu', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'update', NULL, NULL, '2fac055bd915b54ea9b595081c305.188000M8523eaf9cbd363b74928d9b0988605.194000M905.193000000Z"}}');
INSERT INTO public.logs VALUES (46, 'zzzzz-57u5n-b9y596lllldxeeb', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.201000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596ljaf8unjx', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'create', NULL, NULL, '098a1ef34e092bc3f4535628d51","name":null,L},"state":"Uncommitted","requesting_container_uuid":null,"container_uuid":null,"container_count_max":3,"container_count":0,"attempted_container_uuids":[],"command":["echo","4O7b1921fee314b8aab5b2cd8488d5cfc1+117E.F/out":{"kind":"tmp","capacity":1000}IK268435456,"vcpus":1,C}B/out"A3null415true60.0,"committed_by_uuid":null,"secrets_needed":[]}}');
INSERT INTO public.logs VALUES (47, 'zzzzz-57u5n-b9y596lo8mcys4n', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.205000000Z', NULL, NULL, 'zzzzz-j7d0g-b9y596lnlgib6x6', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '076a05212c93a44e79793136381Nwork","group_class":"project",L},"trash_at":null,"delete_at":null,"is_trashed":false,"container_policy":{},"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (48, 'zzzzz-57u5n-b9y596lrdg9y9b2', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.214000000Z', NULL, NULL, 'zzzzz-xvhdp-b9y596ljaf8unjx', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, 'update', NULL, NULL, '298a1ef34e092bc3f4535628d5305.201000Mname":null,"state":"Uncommitted","requesting_container_uuid":null,"depends_on":[]5e897facf4ddb745520e00af96605.212000000ZNlater","state":"Uncommitted","requesting_container_uuid":null,"depends_on":["xvhdp-b9y596jyk47epwe"]}}');
INSERT INTO public.logs VALUES (49, 'zzzzz-57u5n-b9y596lvi26d7ff', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.221000000Z', NULL, NULL, 'zzzzz-j7d0g-b9y596lnlgib6x6', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'update', NULL, NULL, '276a05212c93a44e7979313638305.205000000ZNwork","trash_at":null,"delete_at":null,"is_trashed":false5238b79d4e63c51de64b8809d2605.220000000ZNwork","trash_at":"05.219000Mdelete_at":"2026-01-16T03:04:05.219000Mis_trashed":true}}');
INSERT INTO public.logs VALUES (50, 'zzzzz-57u5n-b9y596ly7s2xmph', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.226000000Z', NULL, NULL, 'zzzzz-7fd4e-b9y596lxm5tedg7', 'zzzzz-tpzed-b9y596jd4wx8uez', NULL, NULL, 'create', NULL, NULL, '08908cacc4d0f9bcf73d2883591NW","description":null,"definition":"name: w\n","collection_uuid":null}}');
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-anonymouspublic', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-fffffffffffffff', 2);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-tpzed-b9y596jd4wx8uez', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-j7d0g-fffffffffffffff', 2);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.run_times VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', '092c79e8f80e559e404bcf660c48f3522b67aba9ff1484b0367e1a4ddef7431d', '7b1921fee314b8aab5b2cd8488d5cfc1+117', 0, '0000000003,', '2026-01-02T03:04:05.134000000Z');
INSERT INTO public.schema_versions VALUES (1, '2026-01-02T03:04:05.000000000Z', 'first tables');
INSERT INTO public.schema_versions VALUES (2, '2026-01-02T03:04:05.000000000Z', 'seal runtime tokens');
INSERT INTO public.schema_versions VALUES (3, '2026-01-02T03:04:05.000000000Z', 'name the steps');
INSERT INTO public.schema_versions VALUES (4, '2026-01-02T03:04:05.000000000Z', 'broad keys of containers');
INSERT INTO public.schema_versions VALUES (5, '2026-01-02T03:04:05.000000000Z', 'indexes without nulls');
INSERT INTO public.schema_versions VALUES (6, '2026-01-02T03:04:05.000000000Z', 'seal secret mounts');
INSERT INTO public.schema_versions VALUES (7, '2026-01-02T03:04:05.000000000Z', 'inputs of containers');
INSERT INTO public.schema_versions VALUES (8, '2026-01-02T03:04:05.000000000Z', 'one index for both keys');
INSERT INTO public.schema_versions VALUES (9, '2026-01-02T03:04:05.000000000Z', 'states without statistics');
INSERT INTO public.schema_versions VALUES (10, '2026-01-02T03:04:05.000000000Z', 'a quicker check of nested values');
INSERT INTO public.schema_versions VALUES (11, '2026-01-02T03:04:05.000000000Z', 'attempts of requests');
INSERT INTO public.schema_versions VALUES (12, '2026-01-02T03:04:05.000000000Z', 'former owners in log rows');
INSERT INTO public.schema_versions VALUES (13, '2026-01-02T03:04:05.000000000Z', 'a short form of log rows');
INSERT INTO public.schema_versions VALUES (14, '2026-01-02T03:04:05.000000000Z', 'log rows without repeated columns');
INSERT INTO public.users VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.001000000Z', '2026-01-02T03:04:05.001000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'root', 'root', '', NULL, 1, 1, '{}', NULL);
INSERT INTO public.users VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.003000000Z', '2026-01-02T03:04:05.003000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'admin', 'admin', '', NULL, 1, 1, '{}', NULL);
INSERT INTO public.users VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.009000000Z', '2026-01-02T03:04:05.009000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'Anonymous', '', NULL, 0, 0, '{}', NULL);
INSERT INTO public.users VALUES ('zzzzz-tpzed-b9y596jd4wx8uez', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.041000000Z', '2026-01-02T03:04:05.041000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'ada@example.org', 'ada', '', '', NULL, 1, 0, '{}', NULL);
INSERT INTO public.workflows VALUES ('zzzzz-7fd4e-b9y596lxm5tedg7', 'zzzzz-tpzed-b9y596jd4wx8uez', '2026-01-02T03:04:05.226000000Z', '2026-01-02T03:04:05.226000000Z', 'zzzzz-tpzed-b9y596jd4wx8uez', 'W', NULL, 'name: w
', NULL);
SELECT pg_catalog.setval('public.logs_id_seq', 50, true);
ALTER TABLE ONLY public.api_client_authorizations
    ADD CONSTRAINT api_client_authorizations_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.authorized_keys
    ADD CONSTRAINT authorized_keys_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.cancellations
    ADD CONSTRAINT cancellations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.cascades
    ADD CONSTRAINT cascades_pkey PRIMARY KEY (kind, subject_uuid);
ALTER TABLE ONLY public.collections
    ADD CONSTRAINT collections_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.container_attempts
    ADD CONSTRAINT container_attempts_pkey PRIMARY KEY (container_uuid, request_uuid);
ALTER TABLE ONLY public.container_inputs
    ADD CONSTRAINT container_inputs_pkey PRIMARY KEY (portable_data_hash, container_uuid);
ALTER TABLE ONLY public.container_requests
    ADD CONSTRAINT container_requests_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.containers
    ADD CONSTRAINT containers_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.dispatcher_leases
    ADD CONSTRAINT dispatcher_leases_pkey PRIMARY KEY (token_uuid);
ALTER TABLE ONLY public.dispatchers
    ADD CONSTRAINT dispatchers_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.expected_starts
    ADD CONSTRAINT expected_starts_pkey PRIMARY KEY (container_uuid);
ALTER TABLE ONLY public.fair_accounts
    ADD CONSTRAINT fair_accounts_pkey PRIMARY KEY (level, share);
ALTER TABLE ONLY public.fair_tickets
    ADD CONSTRAINT fair_tickets_pkey PRIMARY KEY (container_uuid);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (subject_uuid, target_uuid);
ALTER TABLE ONLY public.group_standing
    ADD CONSTRAINT group_standing_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.learned_amounts
    ADD CONSTRAINT learned_amounts_pkey PRIMARY KEY (user_uuid, program, image, size_class);
ALTER TABLE ONLY public.lease_ids
    ADD CONSTRAINT lease_ids_pkey PRIMARY KEY (token_uuid);
ALTER TABLE ONLY public.links
    ADD CONSTRAINT links_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.logs
    ADD CONSTRAINT logs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.logs
    ADD CONSTRAINT logs_uuid_key UNIQUE (uuid);
ALTER TABLE ONLY public.machine_orders
    ADD CONSTRAINT machine_orders_pkey PRIMARY KEY (dispatcher_uuid, machine);
ALTER TABLE ONLY public.machine_reports
    ADD CONSTRAINT machine_reports_pkey PRIMARY KEY (dispatcher_uuid);
ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_pkey PRIMARY KEY (user_uuid, subject_uuid);
ALTER TABLE ONLY public.quota_charges
    ADD CONSTRAINT quota_charges_pkey PRIMARY KEY (container_uuid, subject_uuid);
ALTER TABLE ONLY public.quota_spending
    ADD CONSTRAINT quota_spending_pkey PRIMARY KEY (subject_uuid, day);
ALTER TABLE ONLY public.quota_waits
    ADD CONSTRAINT quota_waits_pkey PRIMARY KEY (request_uuid);
ALTER TABLE ONLY public.quotas
    ADD CONSTRAINT quotas_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.repositories
    ADD CONSTRAINT repositories_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.request_dependencies
    ADD CONSTRAINT request_dependencies_pkey PRIMARY KEY (dependency_uuid, dependent_uuid);
ALTER TABLE ONLY public.run_times
    ADD CONSTRAINT run_times_pkey PRIMARY KEY (user_uuid, program, image, size_class);
ALTER TABLE ONLY public.scheduling_statuses
    ADD CONSTRAINT scheduling_statuses_pkey PRIMARY KEY (container_uuid, dispatcher_uuid);
ALTER TABLE ONLY public.schema_versions
    ADD CONSTRAINT schema_versions_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.start_errors
    ADD CONSTRAINT start_errors_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.task_deliveries
    ADD CONSTRAINT task_deliveries_pkey PRIMARY KEY (request_uuid, url);
ALTER TABLE ONLY public.task_keys
    ADD CONSTRAINT task_keys_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY public.task_transfers
    ADD CONSTRAINT task_transfers_pkey PRIMARY KEY (request_uuid);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.virtual_machines
    ADD CONSTRAINT virtual_machines_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_pkey PRIMARY KEY (webhook_uuid, number);
ALTER TABLE ONLY public.webhook_letters
    ADD CONSTRAINT webhook_letters_pkey PRIMARY KEY (webhook_uuid, log_id);
ALTER TABLE ONLY public.webhook_positions
    ADD CONSTRAINT webhook_positions_pkey PRIMARY KEY (webhook_uuid);
ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (uuid);
CREATE INDEX allocations_container_uuid ON public.allocations USING btree (container_uuid, started_at);
CREATE INDEX api_client_authorizations_container_uuid ON public.api_client_authorizations USING btree (container_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_owner_uuid ON public.api_client_authorizations USING btree (owner_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_secret_hash ON public.api_client_authorizations USING btree (secret_hash NULLS FIRST);
CREATE INDEX authorized_keys_authorized_user_uuid ON public.authorized_keys USING btree (authorized_user_uuid NULLS FIRST);
CREATE INDEX authorized_keys_modified_at_uuid ON public.authorized_keys USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX authorized_keys_owner_uuid ON public.authorized_keys USING btree (owner_uuid NULLS FIRST);
CREATE INDEX cancellations_unfinished ON public.cancellations USING btree (created_at, id) WHERE (finished_at IS NULL);
CREATE INDEX collections_created_at_uuid ON public.collections USING btree (created_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX collections_current_version_uuid ON public.collections USING btree (current_version_uuid NULLS FIRST);
CREATE INDEX collections_modified_at_uuid ON public.collections USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX collections_owner_uuid_created_at ON public.collections USING btree (owner_uuid NULLS FIRST, created_at NULLS FIRST);
CREATE INDEX collections_owner_uuid_modified_at ON public.collections USING btree (owner_uuid NULLS FIRST, modified_at NULLS FIRST);
CREATE INDEX collections_portable_data_hash ON public.collections USING btree (portable_data_hash NULLS FIRST);
CREATE INDEX container_attempts_request_uuid ON public.container_attempts USING btree (request_uuid);
CREATE INDEX container_inputs_by_container ON public.container_inputs USING btree (container_uuid);
CREATE INDEX container_requests_container_uuid_state ON public.container_requests USING btree (container_uuid NULLS FIRST, state NULLS FIRST);
CREATE INDEX container_requests_created_at_uuid ON public.container_requests USING btree (created_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX container_requests_modified_at_uuid ON public.container_requests USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX container_requests_owner_uuid_created_at ON public.container_requests USING btree (owner_uuid NULLS FIRST, created_at NULLS FIRST);
CREATE INDEX container_requests_owner_uuid_modified_at ON public.container_requests USING btree (owner_uuid NULLS FIRST, modified_at NULLS FIRST);
CREATE INDEX container_requests_state_created_at ON public.container_requests USING btree (state NULLS FIRST, created_at NULLS FIRST);
CREATE INDEX container_requests_state_modified_at_uuid ON public.container_requests USING btree (state NULLS FIRST, modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_broad_key_reuse_key ON public.containers USING btree (broad_key NULLS FIRST, reuse_key NULLS FIRST);
CREATE INDEX containers_container_image_created_at ON public.containers USING btree (container_image NULLS FIRST, created_at NULLS FIRST);
CREATE INDEX containers_created_at_uuid ON public.containers USING btree (created_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_modified_at_uuid ON public.containers USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_state_modified_at_uuid ON public.containers USING btree (state NULLS FIRST, modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_state_priority ON public.containers USING btree (state NULLS FIRST, priority NULLS FIRST);
CREATE INDEX credentials_modified_at_uuid ON public.credentials USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX credentials_owner_uuid ON public.credentials USING btree (owner_uuid NULLS FIRST);
CREATE INDEX fair_accounts_reached ON public.fair_accounts USING btree (level, reached);
CREATE INDEX fair_tickets_due ON public.fair_tickets USING btree (due) WHERE (due IS NOT NULL);
CREATE INDEX fair_tickets_share ON public.fair_tickets USING btree (level, share, place, created, container_uuid);
CREATE INDEX grants_shared ON public.grants USING btree (subject_uuid, target_uuid) WHERE (owning = 0);
CREATE INDEX grants_target ON public.grants USING btree (target_uuid);
CREATE INDEX groups_delete_at ON public.groups USING btree (delete_at NULLS FIRST);
CREATE INDEX groups_modified_at_uuid ON public.groups USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX groups_owner_uuid ON public.groups USING btree (owner_uuid NULLS FIRST);
CREATE INDEX links_head_uuid ON public.links USING btree (head_uuid NULLS FIRST);
CREATE INDEX links_link_class_name ON public.links USING btree (link_class NULLS FIRST, name NULLS FIRST);
CREATE INDEX links_owner_uuid ON public.links USING btree (owner_uuid NULLS FIRST);
CREATE INDEX links_tail_uuid_head_uuid ON public.links USING btree (tail_uuid NULLS FIRST, head_uuid NULLS FIRST);
CREATE INDEX logs_object_uuid ON public.logs USING btree (object_uuid NULLS FIRST);
CREATE INDEX memberships_subject ON public.memberships USING btree (subject_uuid);
CREATE INDEX quota_charges_subject_uuid ON public.quota_charges USING btree (subject_uuid, held, rank);
CREATE INDEX quota_waits_again_at ON public.quota_waits USING btree (again_at) WHERE (again_at IS NOT NULL);
CREATE INDEX quota_waits_container_uuid ON public.quota_waits USING btree (container_uuid);
CREATE INDEX quota_waits_subject_uuid ON public.quota_waits USING btree (subject_uuid, rank DESC, request_uuid);
CREATE INDEX quotas_modified_at_uuid ON public.quotas USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX quotas_owner_uuid ON public.quotas USING btree (owner_uuid NULLS FIRST);
CREATE INDEX repositories_modified_at_uuid ON public.repositories USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX repositories_owner_uuid ON public.repositories USING btree (owner_uuid NULLS FIRST);
CREATE INDEX request_dependencies_dependent_uuid ON public.request_dependencies USING btree (dependent_uuid);
CREATE INDEX sparse_collections_delete_at ON public.collections USING btree (delete_at NULLS FIRST) WHERE (delete_at IS NOT NULL);
CREATE INDEX sparse_collections_trash_at ON public.collections USING btree (trash_at NULLS FIRST) WHERE (trash_at IS NOT NULL);
CREATE INDEX sparse_container_requests_parallel_group_state ON public.container_requests USING btree (parallel_group NULLS FIRST, state NULLS FIRST) WHERE ((parallel_group IS NOT NULL) AND (state IS NOT NULL));
CREATE INDEX sparse_container_requests_requesting_container_uuid_state ON public.container_requests USING btree (requesting_container_uuid NULLS FIRST, state NULLS FIRST) WHERE ((requesting_container_uuid IS NOT NULL) AND (state IS NOT NULL));
CREATE INDEX sparse_container_requests_state_expires_at ON public.container_requests USING btree (state NULLS FIRST, expires_at NULLS FIRST) WHERE ((state IS NOT NULL) AND (expires_at IS NOT NULL));
CREATE INDEX sparse_container_requests_state_retry_after ON public.container_requests USING btree (state NULLS FIRST, retry_after NULLS FIRST) WHERE ((state IS NOT NULL) AND (retry_after IS NOT NULL));
CREATE INDEX sparse_container_requests_state_start_after ON public.container_requests USING btree (state NULLS FIRST, start_after NULLS FIRST) WHERE ((state IS NOT NULL) AND (start_after IS NOT NULL));
CREATE INDEX sparse_containers_auth_uuid ON public.containers USING btree (auth_uuid NULLS FIRST) WHERE (auth_uuid IS NOT NULL);
CREATE INDEX sparse_containers_finished_at ON public.containers USING btree (finished_at NULLS FIRST) WHERE (finished_at IS NOT NULL);
CREATE INDEX sparse_containers_locked_by_uuid ON public.containers USING btree (locked_by_uuid NULLS FIRST) WHERE (locked_by_uuid IS NOT NULL);
CREATE INDEX sparse_containers_log ON public.containers USING btree (log NULLS FIRST) WHERE (log IS NOT NULL);
CREATE INDEX sparse_containers_output ON public.containers USING btree (output NULLS FIRST) WHERE (output IS NOT NULL);
CREATE INDEX sparse_containers_withdrawn_at ON public.containers USING btree (withdrawn_at NULLS FIRST) WHERE (withdrawn_at IS NOT NULL);
CREATE INDEX task_keys_claimed_at ON public.task_keys USING btree (claimed_at);
CREATE INDEX task_transfers_phase ON public.task_transfers USING btree (phase);
CREATE INDEX true_container_requests_scheduling_parameters_supervisor ON public.container_requests USING btree (created_at NULLS FIRST, uuid NULLS FIRST) WHERE (
CASE
    WHEN (replace((scheduling_parameters)::text, '"supervisor":true'::text, ''::text) = (scheduling_parameters)::text) THEN 0
    ELSE 1
END = 1);
CREATE INDEX true_containers_scheduling_parameters_supervisor ON public.containers USING btree (state NULLS FIRST, priority NULLS FIRST) WHERE (
CASE
    WHEN (replace((scheduling_parameters)::text, '"supervisor":true'::text, ''::text) = (scheduling_parameters)::text) THEN 0
    ELSE 1
END = 1);
CREATE INDEX true_groups_properties_lading_run ON public.groups USING btree (modified_at NULLS FIRST, uuid NULLS FIRST) WHERE (
CASE
    WHEN (replace((properties)::text, '"lading_run":true'::text, ''::text) = (properties)::text) THEN 0
    ELSE 1
END = 1);
CREATE UNIQUE INDEX unique_collections_owner_uuid_name ON public.collections USING btree (owner_uuid, name) WHERE ((is_trashed = 0) AND (current_version_uuid = uuid));
CREATE UNIQUE INDEX unique_credentials_owner_uuid_name ON public.credentials USING btree (owner_uuid, name);
CREATE UNIQUE INDEX unique_groups_owner_uuid_name ON public.groups USING btree (owner_uuid, name) WHERE (is_trashed = 0);
CREATE UNIQUE INDEX unique_quotas_subject_uuid ON public.quotas USING btree (subject_uuid);
CREATE UNIQUE INDEX unique_repositories_name ON public.repositories USING btree (name);
CREATE UNIQUE INDEX unique_users_email ON public.users USING btree (email);
CREATE UNIQUE INDEX unique_users_username ON public.users USING btree (username);
CREATE UNIQUE INDEX unique_virtual_machines_hostname ON public.virtual_machines USING btree (hostname);
CREATE INDEX virtual_machines_modified_at_uuid ON public.virtual_machines USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX virtual_machines_owner_uuid ON public.virtual_machines USING btree (owner_uuid NULLS FIRST);
CREATE INDEX webhooks_modified_at_uuid ON public.webhooks USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX webhooks_owner_uuid ON public.webhooks USING btree (owner_uuid NULLS FIRST);
CREATE INDEX webhooks_state ON public.webhooks USING btree (state NULLS FIRST);
CREATE INDEX workflows_modified_at_uuid ON public.workflows USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX workflows_owner_uuid ON public.workflows USING btree (owner_uuid NULLS FIRST);
