"""What is public, or says nothing about anyone, and therefore stays readable."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Organisations on the model hub whose names everybody knows, in lower case.
ORGS = words(
    """
    01-ai adept ai-mo ai-sage ai21labs ai4bharat aisingapore alibaba-nlp allenai amazon amd apple arcee-ai ascend
    arcinstitute argilla aws aws-prototyping baai baichuan-inc baidu bartowski bert-base bigcode
    bigscience black-forest-labs bofenghuang boson-ai bullpoint bytedance bytedance-seed casperhansen
    cerebras codellama cognitivecomputations cohere coherelabs cpatonn cross-encoder cyankiwi databricks
    deepmind deepseek-ai descript distilbert dunzhang eleutherai elyza ensemble facebook facebookai
    fireworks-ai fixie-ai flair funaudiollm gaianet google google-bert google-t5 gpt2 gradientai h2oai
    hf-internal-testing hf-mirror hf-tiny-model-private huggingface huggingfaceh4 huggingfacem4
    huggingfacetb huggyllama hustvl ibm ibm-ai-platform ibm-granite ibm-research inclusionai intel
    internlm intfloat ise-uiuc jackfram jinaai kaitchup kakaocorp kimi-team kwai-keye kwaipilot kyutai
    lg-ai-exaconode lgai-exaone liquidai liuhaotian llava-hf lmarena-ai lmms-lab lmstudio-community lmsys
    maddes8cht meituan meituan-longcat meta-llama microsoft minimaxai mispeech mistral-community mistralai
    mit-han-lab mixedbread-ai mlx-community modelscope moondream moonshotai mosaicml mradermacher
    nari-labs naver-clova-ix naver-hyperclovax neuralmagic nexaai nomic-ai nousresearch nvidia nvidia-ai-iot ollama
    open-orca openai openai-community openbmb openchat openflamingo opengvlab openlm-research
    openmoss-team opennlplab orionstarai osunlp paddlepaddle parasail-ai peft-internal-testing
    perplexity-ai pfnet philschmid phind prithivmlmods qihoo360 quantfactory quanttrio qwen redhatai
    rednote-hilab reducto roberta-base rwkv salesforce sarvamai sentence-transformers sesame shuttleai
    skywork snowflake spaces speakleash stabilityai state-spaces stepfun-ai stockmark swiss-ai
    swiss-ai-initiative teknium tencent tencent-hunyuan thebloke thudm tiger-lab tiiuae tinyllama
    togethercomputer transformersbook trl-internal-testing unbabel unsloth upstage utter-project vikhyatk
    vllm vllm-project wizardlm wizardlmteam xai-org xiaomimimo xlangai xverse yuan-lab zai-org
    zed-industries zyphra
    """
)

# Words that stand in front of a slash where a model is named and are no organisation.
PLACES = words(
    """
    api app apps artifacts assets base bin blog cache cached chat checkpoint checkpoints ckpt ckpts code
    collections config configs container content data dataset datasets default dev dir docker docs
    download downloads env etc examples experiments export exports file files final finetuned hf home hub
    huggingface inference input join learn lib library llm llms local login lora loras main merged mnt model
    model-cache models my my-org mymodels myorg new none null opt org organization organizations out
    output outputs papers path posts pricing private public repo repos resolve results root run runs saved
    scripts serve server settings share shared snapshots spaces src srv static storage tasks temp test
    tests tmp tokenizer trained training user username users usr v1 var vol volume weights work workdir
    workspace xet-bridge-us your your-org your_org yourorg
    """
)

# A host under one of these is public, and so is the name itself.
DOMAINS = words(
    """
    ai.google.dev amd.com anaconda.com anaconda.org ant.design apache.org archlinux.org arxiv.org
    aws.amazon.com azure.microsoft.com bitbucket.org bugzilla.redhat.com centos.org cloud.google.com
    cloudflare.com conda.io crates.io debian.org deepseek.com dev.mysql.com developer.mozilla.org
    developers.google.com discuss.ray.io docker.com docker.io docs.aws.amazon.com docs.google.com docs.rs
    example example.com example.net example.org fastapi.tiangolo.com fedoraproject.org flashinfer.ai
    freedesktop.org gateway.docker.internal gcr.io ghcr.io git-scm.com github.com github.io
    githubassets.com githubusercontent.com gitlab.com gnu.org golang.org goo.gle google.com googleapis.com
    grafana.com grpc.io habana.ai hf-mirror.com hf.co host.docker.internal huggingface.co iana.org ibm.com
    ieee.org ietf.org imgur.com intel.com jcristharif.com json-schema.org k8s.io kernel.org kexue.fm
    kubernetes.default.svc kubernetes.default.svc.cluster.local kubernetes.docker.internal kubernetes.io
    launchpad.net linux.org lmcache.ai man7.org mcr.microsoft.com metadata.google.internal microsoft.com
    mistral.ai mlc.ai modelscope.cn mozilla.org mpi4py.github.io mxnet.io neurips.cc ngc.nvidia.com
    nginx.org npmjs.com npmjs.org numpy.org nvcr.io nvidia.com onnx.ai open-mpi.org openai.com
    openaipublic.blob.core.windows.net opencompute.org openreview.net openssl.org packages.microsoft.com
    pip.pypa.io prometheus.io pydantic.dev pypa.io pypi.org pypi.tuna.tsinghua.edu.cn python.org
    pythonhosted.org pytorch.org quay.io ray.io readthedocs.io readthedocs.org reddit.com redhat.com
    registry-1.docker.io registry.k8s.io rocm.docs.amd.com rust-lang.org sbert.net schema.org
    scikit-learn.org scipy.org slack.com sqlalche.me stackoverflow.com starlette.io suse.com systemd.io
    tensorflow.org tiktoken.pages.dev tinyurl.com tldp.org transformers.huggingface.co tridao.me
    triton-lang.org ubuntu.com uvicorn.org vpc.amazonaws.com
    vllm-public-assets.s3.us-west-2.amazonaws.com vllm.ai w3.org
    wandb.ai wandb.com wheelnext.dev wikimedia.org wikipedia.org xethub.hf.co youtu.be youtube.com
    zeromq.org
    """
)

# Host names that name a part rather than a machine.
HOSTS = words(
    """
    - all and any api app backend client client: cluster container cpu cuda decode default dns docker
    engine etcd example false from frontend gateway gpu grafana head host hostname hub ip ipv4 ipv6 kernel
    kubernetes linux litellm lmcache localhost localhost.localdomain log main master minio model models
    n/a name nats nginx node none null ollama open-webui openai peer port postgres prefill prometheus
    proxy public rank ray redis registry remote router self server service sglang socket something str
    string systemd tcp test that the this traefik triton true unix unknown user vllm vllm-openai
    vllm-server web with worker workers world your-host yourhost
    """
)

# What follows a name's place in a sentence or in a message with nothing filled in, and schemes of addresses.
SAID = words(
    """
    a an and are as at be been but by can cannot could denied did do does error failed fails for from ftp grpc grpcs had has
    have http https id if in int into ipc is it its may must nats no none nor not of off on or over string that the then
    there these this those to too uds was were when where which will with word would ws wss yes you your
    """
)

# Amazon's own, in front of amazonaws.com.
SERVICES = words(
    """
    api bedrock ec2 ecr logs monitoring runtime s3 sagemaker secretsmanager ssm sts
    """
)

# Accounts that images and distributions bring along.
USERS = words(
    """
    adm admin administrator airflow anaconda3 conda miniconda3 miniforge3 venv app appuser azureuser bin bitnami build builder centos ci cloud-user
    coder container core daemon debian default deploy dev developer docker ec2-user fedora games git
    github gitlab gitlab-runner guest hadoop huggingface jenkins jovyan kali kube kubernetes linux llm
    local mail me messagebus model model-server modelscope mysql name nginx nobody node nogroup none
    notebook nvidia oem ollama opc openai operator pi postgres proxy public python pytorch rancher ray
    redis rocky root runner sagemaker sagemaker-user service sglang shared slurm ssh sshd sync sys syslog
    system systemd-network systemd-resolve systemd-timesync test tester triton triton-server ubuntu user
    username users vagrant vllm vscode web work worker workspace www www-data you your-user your_user
    youruser
    """
)

# Names of people and machines that are also words of a log: replaced where they name one, not elsewhere.
WORDS = words(
    """
    alpha apiserver april august base batch beta bill block blocks cache chase chat client cluster code
    compute core cores data dean debug default dell drew engine error eval faith frank from gamma global
    gold grace grant guy hope host hosts hunter index inference info input instruct iris jack june labs
    lane large lead load loaded loading local main mark memory miles model models node nodes norm output
    page private prod production public queue rank request requests research response rich rose running
    science serve server serving silver skip small staging start started status storm summer target team
    test tests thor time token tool tools torch trace training user users version victor warning will with
    wood worker
    """
)


def is_public_host(host: str) -> bool:
    """Whether a host, without its port, is one that everybody knows or that says nothing."""
    name = host.lower().rstrip(".")
    if name in HOSTS or name in SAID or name in DOMAINS:
        return True
    parts = name.split(".")
    if name.endswith(
        (".amazonaws.com", ".amazonaws.com.cn")
    ):  # Amazon's own services; not machines, databases, buckets
        return parts[0] in SERVICES or parts[0].isdigit() or parts[0].startswith("account-")
    return any(".".join(parts[at:]) in DOMAINS for at in range(1, len(parts)))
