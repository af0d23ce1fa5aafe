-- Asks Leasehold about each request. Refusals go to the client as Leasehold words them; of requests that may pass,
-- HAProxy is told the figures in variables.
--
-- HAProxy 2.6 or later with Lua. The argument names the listener of HAProxy's own through which Leasehold is asked, so
-- that its time limits, health checks and pooled connections are HAProxy's; fail-open.cfg shows both:
--
--   http-request lua.leasehold abns@leasehold
--
-- Afterwards txn.leasehold.answered is true or false, and txn.leasehold.h.<header, `-` as `_`> holds what is to be
-- passed on. A request with more or longer fields than can be asked about is refused with 431. One request is one question: HAProxy's own retries come later and do not ask again.

-- Longer than the listener's own time limits together, which are the ones that hold. It must never be reached: HAProxy's
-- client then asks again, up to three times, and Leasehold may charge each time.
local TIMEOUT_MS = 2000

-- What a request may have at most, as it came. The question is put through buffers of HAProxy's own that hold no more
-- than the one in which the request came (tune.bufsize, less tune.maxrewrite; tune.http.maxhdr), and adds a few fields.
-- One that did not fit would look like an absent Leasehold, so it is not asked: such a request is refused. These fit
-- HAProxy's defaults; do not set those two options lower without lowering these.
local MOST_FIELDS = 64
local MOST_BYTES = 12288

-- What a client may not say of itself, and what belongs to one connection only.
local WITHHELD = {
    ["connection"] = true,
    ["content-length"] = true,
    ["expect"] = true,
    ["forwarded"] = true,
    ["keep-alive"] = true,
    ["proxy-authorization"] = true,
    ["proxy-connection"] = true,
    ["te"] = true,
    ["trailer"] = true,
    ["transfer-encoding"] = true,
    ["upgrade"] = true,
    ["x-forwarded-host"] = true,
    ["x-forwarded-method"] = true,
    ["x-forwarded-uri"] = true,
    ["x-original-method"] = true,
    ["x-original-uri"] = true,
}

local PASSED_ON = {
    "access-control-allow-credentials",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "cache-control",
    "content-type",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "vary",
    "x-ratelimit-degraded",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-ms",
    "x-request-id",
}

-- HAProxy counts the values of a header from 0.
local function values(list)
    local out = {}
    local i = 0
    while list[i] ~= nil do
        out[#out + 1] = list[i]
        i = i + 1
    end
    return out
end

-- Refuses a request that is too large to ask about. What is counted is in the client's hands, and nobody else's.
local function refuse_excess(txn)
    local reply = txn:reply({
        status = 431,
        reason = "Request Header Fields Too Large",
        body = '{"type":"about:blank","title":"Request header fields too large","status":431}\n',
    })
    reply:add_header("content-type", "application/problem+json")
    reply:add_header("cache-control", "no-store")
    txn:done(reply)
end

local function ask(txn, listener)
    txn:set_var("txn.leasehold.answered", false)
    local target = txn.f:pathq()
    local fields = 0
    local bytes = #target
    local headers = {}
    for name, list in pairs(txn.http:req_get_headers()) do
        local all = values(list)
        for _, value in ipairs(all) do
            fields = fields + 1
            -- With the colon, the space and the end of the line.
            bytes = bytes + #name + #value + 4
        end
        if not WITHHELD[name] then
            headers[name] = all
        end
    end
    if fields > MOST_FIELDS or bytes > MOST_BYTES then
        return refuse_excess(txn)
    end
    local hops = headers["x-forwarded-for"] or {}
    hops[#hops + 1] = txn.f:src()
    headers["x-forwarded-for"] = { table.concat(hops, ", ") }
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-uri"] = { target }

    local answer = core.httpclient():get({
        url = "http://leasehold/v1/check",
        dst = listener,
        headers = headers,
        timeout = TIMEOUT_MS,
    })
    -- HAProxy words a failure as an answer of its own; the listener marks those that are Leasehold's.
    local told = answer and answer.headers
    if not told or not told["x-leasehold-answered"] then
        return
    end
    -- What lets a request pass without Leasehold's word for it is not Leasehold, whatever listens there.
    local decision = told["leasehold-decision"]
    if answer.status < 400 and not (decision and decision[0] == "admitted") then
        return
    end
    txn:set_var("txn.leasehold.answered", true)

    local reply = txn:reply({ status = answer.status, body = answer.body or "" })
    for _, name in ipairs(PASSED_ON) do
        for _, value in ipairs(told[name] and values(told[name]) or {}) do
            txn:set_var("txn.leasehold.h." .. name:gsub("-", "_"), value)
            reply:add_header(name, value)
        end
    end
    if answer.status < 200 or answer.status > 299 then
        txn:done(reply)
    end
end

core.register_action("leasehold", { "http-req" }, ask, 1)
