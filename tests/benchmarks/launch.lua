-- What wrk posts: a personal text, to another phone each time.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local number = 0
function request()
  number = number + 1
  local body = '{"phone":["+1415%07d"],"text":"Hi Ada, your parcel is on its way.","tag":"parcel"}'
  return wrk.format(nil, nil, nil, body:format(number % 10000000))
end
