-- What wrk posts: the size of a personal text.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"phone":["+14152000000"],"text":"Hi Ada, your parcel 1000 is on its way."}'
