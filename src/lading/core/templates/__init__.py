"""Templates: pipelines with named parameters, saved from a run and run with other values.

Open `document` first: a template is a record of `workflows` with a definition of its own form.
`making` makes a version from requests, `bindings` finds where a parameter's value stands in them,
`parameters` has the JSON Schema of values and checks them, `binding` puts values into requests,
`workflow_inputs` reads the inputs of a CWL workflow.
"""
